"""Send requests at a chosen pace and time their results, from outside: the topics alone."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from producer_tools.console import ToolFailure
from producer_tools.coordinates import header
from producer_tools.kafka import Publisher, follow, open_publisher, open_reader, spans_of
from schemas import headers as names

SILENCE_SECONDS = 60.0
"""No result for so long, while some are due, ends the run."""


class Pace(Protocol):
    """When the next request goes out."""

    async def due(self) -> float:
        """Wait until the next request should be sent; the moment intended for it, on the monotonic clock."""

    def answered(self) -> None:
        """One result has come."""


class ClosedLoop:
    """A fixed number of requests is under way: finds out how much the worker can do."""

    def __init__(self, concurrency: int) -> None:
        self._free = asyncio.Semaphore(concurrency)

    async def due(self) -> float:
        """At once when one of the slots is free."""
        await self._free.acquire()
        return time.monotonic()

    def answered(self) -> None:
        """Frees a slot."""
        self._free.release()


class OpenLoop:
    """A fixed rate, whatever comes back: finds out how long callers wait.

    A request that goes out late is timed from when it was due: a stall is not hidden by sending less meanwhile.
    """

    def __init__(self, requests_per_second: float) -> None:
        self._interval_seconds = 1 / requests_per_second
        self._next: float | None = None

    async def due(self) -> float:
        """Every 1/rate seconds, counted from the first call."""
        now = time.monotonic()
        due = now if self._next is None else self._next
        self._next = due + self._interval_seconds
        if due > now:
            await asyncio.sleep(due - now)
        return due

    def answered(self) -> None:
        """Changes nothing."""


@dataclass(slots=True)
class LoadResult:
    """What came back. `statuses`: results by status."""

    latencies_seconds: array[float] = field(default_factory=lambda: array("d"))
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def requests_per_second(self) -> float:
        """From the first request's moment to the last result."""
        return len(self.latencies_seconds) / self.seconds if self.seconds else 0.0

    def percentile_ms(self, percent: float) -> float:
        """The latency that `percent` of the requests did not exceed, in milliseconds. Exact: every one is kept."""
        ordered = sorted(self.latencies_seconds)
        rank = max(1, -(-len(ordered) * percent // 100))
        return ordered[int(rank) - 1] * 1000


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and results come from. `idle_seconds`: see `follow`."""

    bootstrap_servers: str
    request_topic: str
    result_topic: str
    idle_seconds: float = 0.0


async def drive(
    requests: Iterable[tuple[str, bytes]],
    target: Target,
    pace: Pace,
    arrived: Callable[[bytes], None] = lambda _value: None,
) -> LoadResult:
    """Send every (id, request) at `pace` and wait for all results; `arrived` is called with each one's bytes.

    Requests go round the partitions without a key. Ids must not have been used on this topic before.
    Raises ToolFailure when results stay away, KafkaError.
    """
    run = _Run(requests, target, pace, arrived)
    async with open_publisher(target.bootstrap_servers) as publisher:
        sending = asyncio.ensure_future(run.send(publisher))
        try:
            await run.receive(sending)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
    return run.result


class _Run:
    def __init__(
        self, requests: Iterable[tuple[str, bytes]], target: Target, pace: Pace, arrived: Callable[[bytes], None]
    ) -> None:
        self._requests = requests
        self._target = target
        self._pace = pace
        self._arrived = arrived
        self._due: dict[str, float] = {}
        self._listening = asyncio.Event()
        self.result = LoadResult()

    async def send(self, publisher: Publisher) -> None:
        partitions = await publisher.partition_count(self._target.request_topic)
        await self._listening.wait()
        for number, (request_id, value) in enumerate(self._requests):
            self._due[request_id] = await self._pace.due()
            await publisher.send(self._target.request_topic, value, partition=number % partitions)
        await publisher.flush()

    async def receive(self, sending: asyncio.Future[None]) -> None:
        async with open_reader(self._target.bootstrap_servers) as reader:
            ends = {one: span.end for one, span in (await spans_of(reader, self._target.result_topic)).items()}
            self._listening.set()
            started = heard = time.monotonic()
            async for records in follow(reader, ends, idle_seconds=self._target.idle_seconds):
                now = time.monotonic()
                for record in records:
                    due = self._due.pop(header(record.headers, names.ID) or "", None)
                    if due is None:
                        continue
                    heard = now
                    self.result.latencies_seconds.append(now - due)
                    self.result.statuses[header(record.headers, names.STATUS) or "unknown"] += 1
                    self._pace.answered()
                    self._arrived(record.value)
                if sending.done():
                    sending.result()
                    if not self._due:
                        break
                if self._due and now - heard > SILENCE_SECONDS:
                    raise ToolFailure(f"no result for {SILENCE_SECONDS:g} s; {len(self._due)} requests are unanswered")
            self.result.seconds = heard - started
