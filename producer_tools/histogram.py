"""Latencies as an HDR histogram: any range, a constant relative error, a few kilobytes however many are recorded.

The package of that name needs a newer setuptools than vLLM allows, so the two cannot be installed together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

_SUB_BITS = 8
_HALF = 1 << (_SUB_BITS - 1)
RELATIVE_ERROR = 1 / _HALF
"""No value is told larger than it was by more than this share of it."""
TOLD_PERCENTILES = (50.0, 90.0, 99.0, 99.9)


class Histogram:
    """Counts of durations. Durations are kept in whole microseconds, in buckets 1/128 of their value wide."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._sum_seconds = 0.0
        self.count = 0
        self.max_seconds = 0.0

    def record(self, seconds: float) -> None:
        """Count one duration; a negative one as 0."""
        seconds = max(seconds, 0.0)
        value = round(seconds * 1e6)
        shift = max(0, value.bit_length() - _SUB_BITS)
        self._counts[shift * _HALF + (value >> shift)] += 1
        self._sum_seconds += seconds
        self.count += 1
        self.max_seconds = max(self.max_seconds, seconds)

    @property
    def mean_ms(self) -> float:
        """Exact; 0 without any."""
        return self._sum_seconds / self.count * 1000 if self.count else 0.0

    def percentile_ms(self, percent: float) -> float:
        """The duration that `percent` of all did not exceed, told at most RELATIVE_ERROR too long; 0 without any."""
        rank = max(1, -(-self.count * percent // 100))
        seen = 0
        for upper_ms, count in self.buckets_ms():
            seen += count
            if seen >= rank:
                return min(upper_ms, self.max_seconds * 1000)
        return self.max_seconds * 1000

    def buckets_ms(self) -> Iterator[tuple[float, int]]:
        """(largest duration of the bucket in milliseconds, how many), shortest first, empty buckets left out."""
        for index in sorted(self._counts):
            shift = max(0, index // _HALF - 1)
            upper = ((index - shift * _HALF + 1) << shift) - 1
            yield upper / 1000, self._counts[index]

    def summary_ms(self) -> dict[str, float]:
        """Mean, the usual percentiles, and the exact maximum, in milliseconds."""
        told = {f"p{percent:g}": round(self.percentile_ms(percent), 3) for percent in TOLD_PERCENTILES}
        return {"mean": round(self.mean_ms, 3), **told, "max": round(self.max_seconds * 1000, 3)}
