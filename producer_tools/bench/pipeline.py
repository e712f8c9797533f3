"""Measure a pipeline from outside: its topics, the results' own timings, the processes and the GPUs."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

from aiokafka import ConsumerRecord

from producer_tools.bench.measurement import Gpu, Kind, Measurement
from producer_tools.console import ToolFailure
from producer_tools.coordinates import header
from producer_tools.histogram import Histogram
from producer_tools.kafka import follow, open_reader, spans_of
from producer_tools.load import SILENCE_SECONDS, LoadResult, Pace, Target, drive
from producer_tools.local.cpu import CpuSeconds, cpu_seconds, difference
from producer_tools.local.gpu import GpusSeen, watching_gpus
from schemas import headers as names
from schemas.wire import parse_result

SCORED_REQUESTS = 32
"""The first requests of a measurement, whose scores the report keeps: to be compared with another deployment's."""
SAMPLED_RESULTS = 5000
"""Results that are read for their timings, about; reading each would cost the machine more than sending does."""

Requests = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Deployed:
    """Workers that run. `pid`: of a worker or its supervisor on this machine, whose processor time is wanted."""

    name: str
    target: Target
    workers: int
    pid: int | None


@dataclass(slots=True)
class Timings:
    """What results say of themselves, of one in `every`."""

    every: int
    stages: dict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    tokens: list[int] = field(default_factory=list)
    _seen: int = 0

    def arrived(self, value: bytes) -> None:
        """Look at one result, perhaps."""
        self._seen += 1
        if self._seen % self.every:
            return
        result = parse_result(value)
        for stage, milliseconds in result.timings_ms.model_dump().items():
            self.stages[stage].record(milliseconds / 1000)
        if result.usage is not None:
            self.tokens.append(result.usage.prompt_tokens)

    @property
    def stages_ms(self) -> dict[str, dict[str, float]] | None:
        """As a measurement has them."""
        return {stage: one.summary_ms() for stage, one in self.stages.items()} or None


class Scores:
    """Those of the first requests."""

    def __init__(self, requests: Sequence[tuple[str, bytes]]) -> None:
        self._places = {request_id: place for place, (request_id, _) in enumerate(requests[:SCORED_REQUESTS])}
        self._found: dict[int, list[float | None]] = {}

    def arrived(self, request_id: str, value: bytes) -> None:
        """Keep its scores, if it is one of them."""
        if (place := self._places.get(request_id)) is not None:
            items = sorted(parse_result(value).results, key=lambda item: item.index)
            self._found[place] = [item.score for item in items]

    @property
    def by_request(self) -> list[list[float | None]] | None:
        """None where nothing was scored: embeddings, classes."""
        found = [self._found.get(place, []) for place in range(len(self._places))]
        return found if any(score is not None for row in found for score in row) else None


@dataclass(slots=True)
class _Used:
    """What a measurement cost. `cpu`: of the deployment; `generator_seconds`: of this process."""

    cpu: CpuSeconds | None = None
    generator_seconds: float = 0.0
    gpus: GpusSeen = field(default_factory=dict)


async def measure_load(deployed: Deployed, mix: str, requests: Requests, count: int, pace: Pace) -> Measurement:
    """Send `count` requests at `pace`, wait for all results. Raises ToolFailure, KafkaError."""
    timings = _timings(count)
    # Made before: to make one costs as much as to send it.
    ready = list(requests)
    scores = Scores(ready)

    def arrived(request_id: str, value: bytes) -> None:
        timings.arrived(value)
        scores.arrived(request_id, value)

    async with _counting(deployed.pid) as used:
        result = await drive(ready, deployed.target, pace, arrived)
    told = _measurement(deployed, mix, result, timings, used)
    return told.model_copy(
        update={
            "latency_ms": result.latency.summary_ms(),
            "latency_histogram": list(result.latency.buckets_ms()),
            "scores": scores.by_request,
        }
    )


async def measure_backlog(deployed: Deployed, mix: str, warmup: int, count: int, lag: int) -> Measurement:
    """The rate of `count` results after the first `warmup` on the topic, while `lag` requests were waiting.

    No latency: it would be the backlog's age. Raises ToolFailure, KafkaError.
    """
    timings, result = _timings(count), LoadResult()
    async with open_reader(deployed.target.brokers) as reader:
        starts = {one: span.start for one, span in (await spans_of(reader, deployed.target.result_topic)).items()}
        results = _each(follow(reader, starts, idle_seconds=deployed.target.idle_seconds))
        async with aclosing(results):
            for _ in range(warmup):
                await anext(results)
            async with _counting(deployed.pid) as used:
                begun = time.monotonic()
                for _ in range(count):
                    record = await anext(results)
                    result.arrivals.append(time.monotonic())
                    result.statuses[header(record.headers, names.STATUS) or "unknown"] += 1
                    timings.arrived(record.value)
                result.seconds = time.monotonic() - begun
    return _measurement(deployed, mix, result, timings, used).model_copy(update={"lag_at_start": lag})


async def _each(following: AsyncIterator[list[ConsumerRecord]]) -> AsyncGenerator[ConsumerRecord, None]:
    """Every record. Raises ToolFailure when none comes for long."""
    heard = time.monotonic()
    async for records in following:
        for record in records:
            yield record
        if records:
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENCE_SECONDS:
            raise ToolFailure(f"no result for {SILENCE_SECONDS:g} s")


def _timings(count: int) -> Timings:
    return Timings(every=max(1, count // SAMPLED_RESULTS))


@asynccontextmanager
async def _counting(pid: int | None) -> AsyncIterator[_Used]:
    used = _Used()
    before = await asyncio.to_thread(cpu_seconds, pid) if pid is not None else None
    own_before = _own_seconds()
    async with watching_gpus() as used.gpus:
        yield used
    used.generator_seconds = _own_seconds() - own_before
    if pid is not None and before is not None:
        used.cpu = difference(await asyncio.to_thread(cpu_seconds, pid), before)


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _measurement(deployed: Deployed, mix: str, result: LoadResult, timings: Timings, used: _Used) -> Measurement:
    requests = result.requests
    cpu = None
    if used.cpu is not None:
        seconds = {role.value: seconds for role, seconds in used.cpu.items()}
        seconds["load_generator"] = used.generator_seconds
        cpu = {role: round(one / requests * 1e6, 1) for role, one in seconds.items()}
    return Measurement(
        kind=Kind.PIPELINE,
        deployment=deployed.name,
        mix=mix,
        engines=deployed.workers,
        requests=requests,
        seconds=round(result.seconds, 3),
        requests_per_second=round(result.steady_requests_per_second, 2),
        tokens_per_request=round(sum(timings.tokens) / len(timings.tokens), 1) if timings.tokens else None,
        stages_ms=timings.stages_ms,
        cpu_us_per_request=cpu,
        gpus=_gpus(used.gpus),
        statuses=dict(result.statuses),
    )


def _gpus(seen: GpusSeen) -> list[Gpu]:
    return [
        Gpu(
            index=index,
            name=one.name,
            busy_percent=round(sum(one.busy_percent) / len(one.busy_percent), 1) if one.busy_percent else None,
            max_memory_mib=one.max_memory_mib,
        )
        for index, one in sorted(seen.items())
    ]
