"""What the path measures of itself, in bulk: once per batch, chunk or call, never per record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from consumer.clock import Clock
from consumer.errors import DependencyUnavailable, EngineDead, MicroBatchFailed, PartitionLost
from consumer.item import Item, StageSeconds
from consumer.metrics import surroundings, work
from consumer.metrics.meters import Calls, Distribution, Distributions


class Telemetry:
    """Of one worker; read by readings.py. Everything is monotonic since the start of the process."""

    def __init__(self, clock: Clock) -> None:
        def calls(*failures: type[Exception]) -> Calls:
            return Calls(clock.monotonic, work.DURATION_BUCKETS_SECONDS, failures)

        self._clock = clock
        self.prepare, self.shape = calls(), calls()
        self.engine = calls(EngineDead, MicroBatchFailed)
        self.results, self.dead_letters, self.redis = (calls(DependencyUnavailable) for _ in surroundings.SINKS)
        self.commit = calls(DependencyUnavailable, PartitionLost)
        self.micro_batch_sequences = Distribution(work.SIZE_BUCKETS)
        self.record_ages = Distributions(work.AGE_BUCKETS_SECONDS, work.OUTCOMES)
        self.stages = Distributions(work.DURATION_BUCKETS_SECONDS, work.STAGES)
        self.rebalances: Counter[str] = Counter()
        self.rebalance_durations = Distribution(work.DURATION_BUCKETS_SECONDS)
        self._without_assignment_since: float | None = None

    def delivered(self, items: Sequence[Item], stages: Sequence[StageSeconds], handed_over_at: float) -> None:
        """A chunk is acknowledged. `stages`: of each item; `handed_over_at`: monotonic seconds."""
        seconds = np.empty((len(items), len(work.STAGES)))
        seconds[:, :-2] = stages
        seconds[:, -2] = self._clock.monotonic() - handed_over_at
        seconds[:, -1] = seconds[:, :-1].sum(axis=1)
        self.stages.observe(np.tile(np.arange(len(work.STAGES)), len(items)), seconds.ravel())
        refused = np.array([item.outcome is None or item.outcome.code is not None for item in items], dtype=np.intp)
        stamped_ms = np.array([item.record.timestamp_ms for item in items])
        age_seconds = np.maximum(0, self._clock.unix_ms() - stamped_ms) / 1000
        # A record without a timestamp, or one that could not be decoded, has no age.
        stamped = stamped_ms > 0
        self.record_ages.observe(refused[stamped], age_seconds[stamped])

    def assigned(self) -> None:
        """The group gave this worker an assignment."""
        self.rebalances["assigned"] += 1
        if self._without_assignment_since is not None:
            self.rebalance_durations.observe(self._clock.monotonic() - self._without_assignment_since)
            self._without_assignment_since = None

    def releases(self) -> None:
        """The assignment ends."""
        self._without_assignment_since = self._clock.monotonic()

    def released(self, how: str) -> None:
        """It has ended: `revoked`, `unfinished` or `lost`."""
        self.rebalances[how] += 1
