"""Send requests at a chosen pace and time their results, from outside: the topics alone."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from aiokafka import ConsumerRecord

from producer_tools.connections.kafka import Brokers
from producer_tools.console import ToolFailure
from producer_tools.coordinates import header
from producer_tools.histogram import Histogram
from producer_tools.kafka import Publisher, follow, open_publisher, open_reader, spans_of
from schemas import headers as names

SILENCE_SECONDS = 60.0
"""No result for so long, while some are due, ends the run."""
SENT_AT_ONCE = 256
"""Requests handed to the producer together, at most."""
EDGE = 10
"""The steady rate leaves out the first and the last 1/EDGE of the results, in which the pipeline fills and empties."""


class Pace(Protocol):
    """When the next requests go out."""

    async def due(self, most: int) -> list[float]:
        """Wait until a request should be sent; the intended moments of all that should, on the monotonic clock."""

    def answered(self) -> None:
        """One result has come."""


class ClosedLoop:
    """A fixed number of requests is under way: finds out how much the worker can do.

    Its latencies say how long the worker's queue is that it makes, not how long callers would wait.
    """

    def __init__(self, concurrency: int) -> None:
        self._free = concurrency
        self._freed = asyncio.Event()

    async def due(self, most: int) -> list[float]:
        """As many at once as slots are free."""
        while not self._free:
            self._freed.clear()
            await self._freed.wait()
        taken = min(self._free, most)
        self._free -= taken
        return [time.monotonic()] * taken

    def answered(self) -> None:
        """Frees a slot."""
        self._free += 1
        self._freed.set()


class OpenLoop:
    """A fixed rate, whatever comes back: finds out how long callers wait.

    A request that goes out late is timed from when it was due: a stall is not hidden by sending less meanwhile.
    """

    def __init__(self, requests_per_second: float) -> None:
        self._interval_seconds = 1 / requests_per_second
        self._next: float | None = None

    async def due(self, most: int) -> list[float]:
        """One every 1/rate seconds, counted from the first call; several where this call is late."""
        now = time.monotonic()
        self._next = now if self._next is None else self._next
        if self._next > now:
            await asyncio.sleep(self._next - now)
            now = time.monotonic()
        moments = [self._next]
        self._next += self._interval_seconds
        while len(moments) < most and self._next <= now:
            moments.append(self._next)
            self._next += self._interval_seconds
        return moments

    def answered(self) -> None:
        """Changes nothing."""


@dataclass(slots=True)
class LoadResult:
    """What came back. `statuses`: results by status. `arrivals`: when each result came, on the monotonic clock."""

    latency: Histogram = field(default_factory=Histogram)
    statuses: Counter[str] = field(default_factory=Counter)
    arrivals: array[float] = field(default_factory=lambda: array("d"))
    seconds: float = 0.0

    @property
    def requests(self) -> int:
        """Results that came."""
        return len(self.arrivals)

    @property
    def requests_per_second(self) -> float:
        """From the first request's moment to the last result."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def steady_requests_per_second(self) -> float:
        """Of the results in the middle; of all, where they came too close together to tell."""
        first = self.requests // EDGE
        last = self.requests - 1 - first
        if last <= first or self.arrivals[last] <= self.arrivals[first]:
            return self.requests_per_second
        return (last - first) / (self.arrivals[last] - self.arrivals[first])

    def percentile_ms(self, percent: float) -> float:
        """The latency that `percent` of the requests did not exceed, in milliseconds."""
        return self.latency.percentile_ms(percent)


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and results come from. `idle_seconds`: see `follow`."""

    brokers: Brokers
    request_topic: str
    result_topic: str
    idle_seconds: float = 0.0


Arrived = Callable[[str, bytes], None]
"""Told of each result: its request's id, and its bytes."""


def _ignored(_request_id: str, _value: bytes) -> None:
    """For those who do not look at results."""


async def drive(
    requests: Iterable[tuple[str, bytes]],
    target: Target,
    pace: Pace,
    arrived: Arrived = _ignored,
) -> LoadResult:
    """Send every (id, request) at `pace` and wait for all results; `arrived` is called with each one's id and bytes.

    Requests go round the partitions without a key. Ids must not have been used on this topic before.
    Raises ToolFailure when results stay away, KafkaError.
    """
    run = _Run(requests, target, pace, arrived)
    async with open_publisher(target.brokers) as publisher:
        sending = asyncio.ensure_future(run.send(publisher))
        try:
            await run.receive(sending)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
    return run.result


async def publish_all(requests: Iterable[tuple[str, bytes]], target: Target) -> int:
    """Publish every request without waiting for results; how many they were. Raises ToolFailure, KafkaError."""
    left = iter(requests)
    async with open_publisher(target.brokers) as publisher:
        partitions = await publisher.partition_count(target.request_topic)
        partition = 0
        while some := [value for _, value in islice(left, SENT_AT_ONCE)]:
            await publisher.send_together(target.request_topic, some, partition=partition % partitions)
            partition += 1
        await publisher.flush()
        return publisher.acknowledged_records


class _Run:
    def __init__(self, requests: Iterable[tuple[str, bytes]], target: Target, pace: Pace, arrived: Arrived) -> None:
        self._requests = iter(requests)
        self._target = target
        self._pace = pace
        self._arrived = arrived
        self._due: dict[str, float] = {}
        self._listening = asyncio.Event()
        self.result = LoadResult()

    async def send(self, publisher: Publisher) -> None:
        topic = self._target.request_topic
        partitions = await publisher.partition_count(topic)
        await self._listening.wait()
        number = 0
        while (first := next(self._requests, None)) is not None:
            moments = await self._pace.due(SENT_AT_ONCE)
            some = [first, *islice(self._requests, len(moments) - 1)]
            for partition, values in self._by_partition(some, moments, number, partitions):
                await publisher.send_together(topic, values, partition=partition)
            number += len(some)
        await publisher.flush()

    def _by_partition(
        self, some: list[tuple[str, bytes]], moments: list[float], number: int, partitions: int
    ) -> Iterator[tuple[int, list[bytes]]]:
        values: dict[int, list[bytes]] = {}
        for place, ((request_id, value), due) in enumerate(zip(some, moments, strict=False), start=number):
            self._due[request_id] = due
            values.setdefault(place % partitions, []).append(value)
        yield from values.items()

    async def receive(self, sending: asyncio.Future[None]) -> None:
        async with open_reader(self._target.brokers) as reader:
            ends = {one: span.end for one, span in (await spans_of(reader, self._target.result_topic)).items()}
            self._listening.set()
            await self._follow(sending, follow(reader, ends, idle_seconds=self._target.idle_seconds))

    async def _follow(self, sending: asyncio.Future[None], following: AsyncIterator[list[ConsumerRecord]]) -> None:
        started = heard = time.monotonic()
        async for records in following:
            now = time.monotonic()
            for record in records:
                if self._take(record, now):
                    heard = now
            if sending.done():
                sending.result()
                if not self._due:
                    break
            if self._due and now - heard > SILENCE_SECONDS:
                raise ToolFailure(f"no result for {SILENCE_SECONDS:g} s; {len(self._due)} requests are unanswered")
        self.result.seconds = heard - started

    def _take(self, record: ConsumerRecord, now: float) -> bool:
        request_id = header(record.headers, names.ID) or ""
        due = self._due.pop(request_id, None)
        if due is None:
            return False
        self.result.latency.record(now - due)
        self.result.arrivals.append(now)
        self.result.statuses[header(record.headers, names.STATUS) or "unknown"] += 1
        self._pace.answered()
        self._arrived(request_id, record.value)
        return True
