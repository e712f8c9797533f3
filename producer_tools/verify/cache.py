"""Redis against the results topic: what should not have expired is there, as bytes that stand on the topic."""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from redis.asyncio.cluster import RedisCluster

from producer_tools.cache import connected
from producer_tools.connections.redis import RedisClient, RedisServer
from producer_tools.coordinates import Coordinates, header, source_of
from producer_tools.kafka import read_spans, spans_of
from producer_tools.verify.tally import Finding, Findings, Tally
from schemas import headers as names

EXPIRY_MARGIN_SECONDS = 60
"""A result so close to its expiry is not looked for: clocks differ, and the audit takes its time."""
LOOK_AGAIN_RESULTS = 10_000
"""So many absent results are looked for once more, LOOK_AGAIN_SECONDS later."""
LOOK_AGAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Cache:
    """Where readers look. `ttl_seconds`: the worker's, for requests that name none."""

    server: RedisServer
    prefix: str
    ttl_seconds: int


class _Lookup:
    """Compares batch after batch, remembering 8 bytes per result and the few that need a second look."""

    def __init__(self, client: RedisClient, findings: Findings) -> None:
        self._client = client
        self._findings = findings
        self._on_topic = array("Q")
        self._absent: list[tuple[str, Coordinates]] = []
        self._different: list[tuple[int, Coordinates]] = []
        self.checked = 0

    def seen_on_topic(self, value: bytes) -> None:
        self._on_topic.append(_digest(value))

    async def compare(self, due: Sequence[tuple[str, bytes, Coordinates]]) -> None:
        """Each result (key, bytes, source) with what Redis holds under its key."""
        held = await self._held([key for key, _, _ in due])
        self.checked += len(due)
        for (key, on_topic, source), value in zip(due, held, strict=True):
            if value is not None and value != on_topic:
                self._different.append((_digest(value), source))
            elif value is None and len(self._absent) < LOOK_AGAIN_RESULTS:
                self._absent.append((key, source))
            elif value is None:
                self._findings.add(Finding.REDIS_MISSING, source)

    async def conclude(self) -> None:
        """Look again for what was absent, and decide on what was different."""
        if self._absent:
            # The newest results reach the topic and Redis at the same time, in either order.
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            held = await self._held([key for key, _ in self._absent])
            for (_, source), value in zip(self._absent, held, strict=True):
                if value is None:
                    self._findings.add(Finding.REDIS_MISSING, source)
        # The same id may have been scored again, so the bytes of any result on the topic are right.
        digests = array("Q", sorted(self._on_topic))
        for digest, source in self._different:
            place = bisect_left(digests, digest)
            if place == len(digests) or digests[place] != digest:
                self._findings.add(Finding.REDIS_DIFFERS, source)

    async def _held(self, keys: Sequence[str]) -> Sequence[bytes | str | None]:
        if not keys:
            return []
        if isinstance(self._client, RedisCluster):
            return list(await self._client.mget_nonatomic(keys))
        return await self._client.mget(keys)


async def check_cache(reader: AIOKafkaConsumer, topic: str, tally: Tally, cache: Cache, findings: Findings) -> int:
    """Add to `findings` what Redis lacks or should not hold; returns how many results were looked up.

    Raises ToolFailure, KafkaError, RedisError.
    """
    spans = await spans_of(reader, topic)
    async with connected(cache.server) as client:
        lookup = _Lookup(client, findings)
        async for records in read_spans(reader, spans):
            due = []
            for record in records:
                lookup.seen_on_topic(record.value)
                source = source_of(record.headers)
                if source is not None and _should_be_held(record, source, tally, cache):
                    due.append((cache.prefix + (header(record.headers, names.ID) or ""), record.value, source))
            await lookup.compare(due)
        await lookup.conclude()
    return lookup.checked


def _should_be_held(record: ConsumerRecord, source: Coordinates, tally: Tally, cache: Cache) -> bool:
    ttl_seconds = tally.ttl_seconds(source) or cache.ttl_seconds
    left_seconds = record.timestamp / 1000 + ttl_seconds - time.time()
    return source.topic == tally.topic and left_seconds > EXPIRY_MARGIN_SECONDS


def _digest(value: bytes | str) -> int:
    return hash(value) & (2**64 - 1)
