"""One request at a time: what a caller waits for who finds the pipeline idle, from publishing to Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaProducer
from redis.asyncio.client import PubSub

from producer_tools.bench.measurement import Kind, Measurement
from producer_tools.bench.pipeline import Deployed, Timings
from producer_tools.cache import connected, value_of
from producer_tools.connections.redis import RedisClient, RedisServer
from producer_tools.console import ToolFailure
from producer_tools.histogram import Histogram

WAIT_SECONDS = 30.0


async def measure_one_at_a_time(
    deployed: Deployed,
    mix: str,
    requests: Iterable[tuple[str, bytes]],
    warmup: int,
    *,
    server: RedisServer,
    prefix: str,
) -> Measurement:
    """Publish, wait for the hint, GET, and again; the first `warmup` are not counted.

    Raises ToolFailure, KafkaError, RedisError.
    """
    latency, timings = Histogram(), Timings(every=1)
    # No linger: there is nothing to wait for.
    producer = AIOKafkaProducer(**deployed.target.brokers.client_options, linger_ms=0)
    await producer.start()
    begun = time.monotonic()
    try:
        async with connected(server) as client, client.pubsub() as hints:
            for number, (request_id, value) in enumerate(requests):
                if number == warmup:
                    begun = time.monotonic()
                key = f"{prefix}{request_id}"
                await hints.subscribe(key)
                await hints.get_message(timeout=WAIT_SECONDS)  # the confirmation
                published = time.monotonic()
                await producer.send(deployed.target.request_topic, value, partition=0)
                result = await _until_there(client, hints, key)
                if number >= warmup:
                    latency.record(time.monotonic() - published)
                    timings.arrived(result)
                await hints.unsubscribe(key)
                await hints.get_message(timeout=WAIT_SECONDS)
    finally:
        await producer.stop()
    seconds = time.monotonic() - begun
    return Measurement(
        kind=Kind.PIPELINE_LONE,
        deployment=deployed.name,
        mix=mix,
        engines=deployed.workers,
        requests=latency.count,
        seconds=round(seconds, 3),
        requests_per_second=round(latency.count / seconds, 2),
        latency_ms=latency.summary_ms(),
        latency_histogram=list(latency.buckets_ms()),
        stages_ms=timings.stages_ms,
    )


async def _until_there(client: RedisClient, hints: PubSub, key: str) -> bytes:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while (value := await value_of(client, key)) is None:
                await hints.get_message(timeout=WAIT_SECONDS)
            return value
    except TimeoutError:
        raise ToolFailure(f"no result under {key} in Redis within {WAIT_SECONDS:g} s") from None
