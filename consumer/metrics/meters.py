"""What is measured as it happens; everything else is read from the worker's state when it is asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt


class Distribution:
    """One series of a histogram: how many observations fell into each bucket, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        """Of each bucket alone, the infinite one last."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """One observation; a bucket's bound belongs to it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Distributions:
    """All series of a histogram, for many observations at once: three calls of numpy, however many there are."""

    def __init__(self, bounds: Sequence[float], series: Sequence[str]) -> None:
        self._bounds = tuple(bounds)
        self._edges = np.asarray(bounds, dtype=np.float64)
        self._series = tuple(series)
        self._counts = np.zeros((len(series), len(bounds) + 1), dtype=np.int64)
        self._sums = np.zeros(len(series))

    def observe(self, rows: npt.NDArray[np.intp], values: npt.NDArray[np.float64]) -> None:
        """`values`: [observations]; `rows`: of each, the place of its series among `series`."""
        buckets = rows * self._counts.shape[1] + np.searchsorted(self._edges, values)
        self._counts += np.bincount(buckets, minlength=self._counts.size).reshape(self._counts.shape)
        self._sums += np.bincount(rows, values, minlength=len(self._sums))

    def items(self) -> Iterator[tuple[str, Distribution]]:
        """Each series as it is now."""
        for name, counts, total in zip(self._series, self._counts.tolist(), self._sums.tolist(), strict=True):
            one = Distribution(self._bounds)
            one.counts, one.sum = counts, total
            yield name, one


class Calls:
    """Calls of one kind: how many, how they ended, how long they took, and how long at least one was under way.

    `now`: monotonic seconds. A call that ends by anything else than success or one of `failures`, a cancellation for
    instance, counts only as time.
    """

    def __init__(
        self, now: Callable[[], float], bounds: Sequence[float], failures: tuple[type[Exception], ...] = ()
    ) -> None:
        self.succeeded = 0
        self.failed = 0
        self.failed_by: Counter[type[Exception]] = Counter()
        self.durations = Distribution(bounds)
        self._now = now
        self._failures = failures
        self._under_way = 0
        self._since = 0.0
        self._busy_seconds = 0.0

    @property
    def busy_seconds(self) -> float:
        """In which at least one was under way, until now; calls that overlap count once."""
        return self._busy_seconds + (self._now() - self._since if self._under_way else 0.0)

    @contextmanager
    def call(self) -> Iterator[None]:
        """One call, while the block runs. Used on the event loop only."""
        began = self._now()
        if not self._under_way:
            self._since = began
        self._under_way += 1
        try:
            yield
            self.succeeded += 1
        except self._failures as failure:
            self.failed += 1
            self.failed_by[type(failure)] += 1
            raise
        finally:
            now = self._now()
            self.durations.observe(now - began)
            self._under_way -= 1
            if not self._under_way:
                self._busy_seconds += now - self._since
