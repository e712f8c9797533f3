"""What the path measures of itself, in bulk: once per batch, chunk or call, never per record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from consumer.clock import Clock
from consumer.errors import DependencyUnavailable, EngineDead, MicroBatchFailed, PartitionLost
from consumer.item import Item, StageSeconds
from consumer.metrics import surroundings, work
from consumer.metrics.meters import Calls, Distribution

_LAST_STAGES = ("write", "total")
"""What comes after those that an item knows of itself."""


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
        self.answered_age, self.refused_age = (Distribution(work.AGE_BUCKETS_SECONDS) for _ in range(2))
        self.stages = {
            stage: Distribution(work.DURATION_BUCKETS_SECONDS) for stage in StageSeconds._fields + _LAST_STAGES
        }
        self.rebalances: Counter[str] = Counter()
        self.rebalance_durations = Distribution(work.DURATION_BUCKETS_SECONDS)
        self._without_assignment_since: float | None = None

    def delivered(self, items: Sequence[Item], stages: Sequence[StageSeconds], handed_over_at: float) -> None:
        """A chunk is acknowledged. `stages`: of each item; `handed_over_at`: monotonic seconds."""
        written = np.full((len(items), 1), self._clock.monotonic() - handed_over_at)
        seconds = np.hstack([np.array(stages), written])
        seconds = np.hstack([seconds, seconds.sum(axis=1, keepdims=True)])
        for distribution, column in zip(self.stages.values(), seconds.T, strict=True):
            distribution.observe_all(column)
        answered = np.array([item.outcome is not None and item.outcome.code is None for item in items])
        stamped_ms = np.array([item.record.timestamp_ms for item in items])
        age_seconds = np.maximum(0, self._clock.unix_ms() - stamped_ms) / 1000
        # A record without a timestamp, or one that could not be decoded, has no age.
        stamped = stamped_ms > 0
        self.answered_age.observe_all(age_seconds[answered & stamped])
        self.refused_age.observe_all(age_seconds[~answered & stamped])

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
