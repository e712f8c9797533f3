"""A worker without an engine: answers requests by the length of their texts, through the wire contract alone.

`answer` is pure, so that a test can also put answers on the topics in a wrong order, twice or not at all.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

import redis.asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from schemas.dead_letter import Reason, Record, dead_letter
from schemas.errors import ErrorCode
from schemas.headers import result_headers
from schemas.request import RerankRequest, ScoringRequest
from schemas.wire import RequestLimits, WireError, parse_request, seal_result

TTL_SECONDS = 3600
MODEL = ("echo", None, "0000")


class Answer(NamedTuple):
    """What becomes of one request."""

    id: str | None
    result: Record | None
    dead_letter: Record | None


def answer(record: ConsumerRecord) -> Answer:
    """The result and the dead letter of a request record."""
    try:
        request = parse_request(record.value, RequestLimits())
    except WireError as refused:
        return _refusal(record, refused)
    return Answer(request.id, _result(record, request.id, request.task, _items(request), None), None)


def failure(record: ConsumerRecord, code: ErrorCode) -> Answer:
    """The answer of a worker that fails on a good request."""
    request = parse_request(record.value, RequestLimits())
    return _refusal(record, WireError(code, "made up", id=request.id, task=request.task))


@dataclass(frozen=True)
class EchoWorker:
    """Topics and cache of a running echo."""

    bootstrap_servers: str
    requests: str
    results: str
    dead: str
    redis_url: str
    prefix: str = "score:"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers whatever is on the topic and comes to it; an error in the echo fails the test."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap_servers, auto_offset_reset="earliest")
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, enable_idempotence=True)
        cache = redis.asyncio.from_url(self.redis_url)
        await consumer.start()
        await producer.start()
        try:
            partitions = await producer.partitions_for(self.requests)
            consumer.assign([TopicPartition(self.requests, number) for number in partitions])
            async for record in consumer:
                await self._settle(record, producer, cache)
        finally:
            await consumer.stop()
            await producer.stop()
            await cache.aclose()

    async def _settle(self, record: ConsumerRecord, producer: AIOKafkaProducer, cache: redis.asyncio.Redis) -> None:
        settled = answer(record)
        if settled.dead_letter is not None:
            await _send(producer, self.dead, settled.dead_letter, None)
        if settled.result is not None:
            key = f"{self.prefix}{settled.id}"
            await cache.set(key, settled.result.value, ex=TTL_SECONDS)
            await cache.publish(key, "ok")
            await _send(producer, self.results, settled.result, record.partition)


async def _send(producer: AIOKafkaProducer, topic: str, record: Record, partition: int | None) -> None:
    await producer.send_and_wait(
        topic, key=record.key, value=record.value, headers=list(record.headers), partition=partition
    )


def _items(request: ScoringRequest) -> list[dict[str, object]]:
    if isinstance(request, RerankRequest):
        scored = [
            {"index": index, "id": one.id or f"d{index}", "score": 1 / (1 + len(one.text))}
            for index, one in enumerate(request.documents)
        ]
        return sorted(scored, key=lambda item: -item["score"])
    return [{"index": 0, "score": 0.5}]


def _refusal(record: ConsumerRecord, refused: WireError) -> Answer:
    reason = Reason(
        refused.code,
        refused.message,
        refused.id,
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        group="echo",
        attempts=1,
        worker_version="0",
    )
    buried = None
    if refused.code.dead_letter:
        buried = dead_letter(record.key, record.value, record.headers, reason, max_bytes=1_000_000)
    if refused.id is None:
        return Answer(None, None, buried)
    return Answer(refused.id, _result(record, refused.id, refused.task, [], refused), buried)


def _result(
    record: ConsumerRecord,
    request_id: str,
    task: str | None,
    items: list[dict[str, object]],
    refused: WireError | None,
) -> Record:
    status = "ok" if refused is None else "error"
    sealed = seal_result(
        status=status,
        source=(record.topic, record.partition, record.offset, record.timestamp),
        id=request_id,
        task=task,
        model=MODEL,
        scale="cosine",
        results=items,
        failed=[],
        truncated=[],
        prompt_tokens=1,
        error=None if refused is None else (refused.code, refused.message, refused.index),
        metadata=None,
        dropped=[],
    )
    headers = result_headers(
        record.headers,
        id=request_id,
        status=status,
        source_topic=record.topic,
        source_partition=record.partition,
        source_offset=record.offset,
    )
    timings = dict.fromkeys(("queue", "prepare", "engine", "emit", "total"), 0.5)
    return Record(record.key, sealed.finish(timings, int(time.time() * 1000)), headers)
