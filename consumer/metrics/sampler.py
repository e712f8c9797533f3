"""What cannot be read at the moment of a scrape: the ends of the partitions, the GPUs, the pace of the last minutes.

One task, every few seconds. Nothing of the path waits for it, and what fails here is counted and tried again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from consumer.clock import Clock
from consumer.errors import DependencyUnavailable
from consumer.flow import Flow
from consumer.hooks import HookOverran, Hooks
from consumer.lane import Lane
from consumer.records import TopicPartition

SAMPLE_SECONDS = 5.0
GPU_SECONDS = 1.0
"""For the driver to tell of all GPUs, which takes it less than a millisecond."""
PACE_SAMPLES = 60
"""Over which the pace is measured: five minutes."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU, or a slice of one (MIG).

    `name`: its number as the driver counts, a slice's with the number of the slice: 0:1. `utilization`: 0 to 1; None
    where the driver does not tell, of a slice for instance.
    """

    name: str
    utilization: float | None
    used_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class _Sample:
    records: int
    prepare_seconds: float
    engine_seconds: float


class Sampler:
    """`read_ends`: see KafkaSource.end_offsets. `read_gpus`: blocking, all that this process may use."""

    def __init__(
        self,
        flow: Flow,
        read_ends: Callable[[], Awaitable[Mapping[TopicPartition, int]]],
        read_gpus: Callable[[], Sequence[GpuReading]],
        clock: Clock,
    ) -> None:
        self.gpus: Sequence[GpuReading] = ()
        self.failed_reads = 0
        self.seconds_per_record = 0.0
        """Of the engine or of prepare, whichever was busier; 0 until a record was answered."""
        self._flow = flow
        self._read_ends = read_ends
        self._read_gpus = read_gpus
        self._clock = clock
        self._driver = Hooks(GPU_SECONDS)
        self._ends: dict[TopicPartition, int] = {}
        self._read_at = clock.monotonic()
        self._failing = False
        self._samples = deque([_Sample(0, 0.0, 0.0)], maxlen=PACE_SAMPLES)

    @property
    def ends_age_seconds(self) -> float:
        """Since the ends of the partitions were read."""
        return self._clock.monotonic() - self._read_at

    def lag_records(self, lane: Lane) -> int | None:
        """Offsets of the lane's partition that are not committed; None until its end and its place are known."""
        end = self._ends.get(lane.partition)
        place = lane.watermark if lane.committed is None else lane.committed
        return None if end is None or place is None else max(0, end - place)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def sample(self) -> None:
        """Once."""
        self._note_pace()
        await self._watch_gpus()
        try:
            # In a rebalance there is nothing to ask for; what was known before is better than nothing.
            self._ends.update(await self._read_ends())
        except DependencyUnavailable as unavailable:
            self.failed_reads += 1
            if not self._failing:
                log.warning("lag not read", reason=unavailable.reason)
            self._failing = True
        else:
            self._failing = False
            self._read_at = self._clock.monotonic()

    async def _watch_gpus(self) -> None:
        """A driver may hang, for a GPU that fell off its bus for instance; lag is read all the same."""
        try:
            self.gpus = await self._driver.call(self._read_gpus)
        except HookOverran as overran:
            if self.gpus:
                log.warning("GPUs are not watched", reason=f"the driver {overran}")
            self.gpus = ()

    def _note_pace(self) -> None:
        telemetry = self._flow.telemetry
        now = _Sample(self._flow.tally.delivered_records, telemetry.prepare.busy_seconds, telemetry.engine.busy_seconds)
        then = self._samples[0]
        if now.records > then.records:
            busy_seconds = max(now.prepare_seconds - then.prepare_seconds, now.engine_seconds - then.engine_seconds)
            self.seconds_per_record = busy_seconds / (now.records - then.records)
        self._samples.append(now)
