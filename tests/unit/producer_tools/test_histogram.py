"""Latencies of any range, with a known relative error."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_tools.histogram import RELATIVE_ERROR, Histogram


def recorded(latencies: list[float]) -> Histogram:
    histogram = Histogram()
    for one in latencies:
        histogram.record(one)
    return histogram


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_the_least_latency_that_so_many_did_not_exceed(latencies: list[float], percent: float) -> None:
    exact_ms = sorted(latencies)[max(1, math.ceil(len(latencies) * percent / 100)) - 1] * 1000
    told_ms = recorded(latencies).percentile_ms(percent)
    assert exact_ms - 0.001 <= told_ms <= exact_ms * (1 + RELATIVE_ERROR) + 0.001


@given(st.lists(st.floats(0, 1e5), min_size=1))
def test_the_longest_and_the_mean_are_exact_and_no_latency_is_lost(latencies: list[float]) -> None:
    summary = recorded(latencies).summary_ms()
    assert summary["max"] == pytest.approx(max(latencies) * 1000, abs=0.001)
    assert summary["mean"] == pytest.approx(math.fsum(latencies) / len(latencies) * 1000, abs=0.001)
    buckets = list(recorded(latencies).buckets_ms())
    assert sum(count for _, count in buckets) == len(latencies)
    assert [upper for upper, _ in buckets] == sorted({upper for upper, _ in buckets})


def test_an_hour_takes_no_more_room_than_a_second() -> None:
    assert len(list(recorded([one / 1e4 for one in range(100_000)]).buckets_ms())) < 2500
