"""Pacing and latencies of a load."""

import time
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_tools.load import ClosedLoop, LoadResult, OpenLoop


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 99, 100]))
def test_a_percentile_is_the_least_latency_that_so_many_did_not_exceed(latencies: list[float], percent: int) -> None:
    found = LoadResult(array("d", latencies)).percentile_ms(percent) / 1000
    assert min(abs(found - one) for one in latencies) < 1e-9

    def share_within(bound: float) -> float:
        return 100 * sum(one <= bound + 1e-9 for one in latencies) / len(latencies)

    assert share_within(found) >= percent
    smaller = [one for one in latencies if one < found - 1e-9]
    assert all(share_within(one) < percent for one in smaller)


async def test_an_open_loop_counts_a_late_request_from_when_it_was_due() -> None:
    pace = OpenLoop(requests_per_second=100)
    first = await pace.due()
    time.sleep(0.1)  # noqa: ASYNC251 - the loop stalls, as a busy sender does
    due = [await pace.due() for _ in range(5)]
    assert due == pytest.approx([first + 0.01 * number for number in range(1, 6)])


async def test_a_closed_loop_sends_when_an_answer_has_come() -> None:
    pace = ClosedLoop(concurrency=1)
    first = await pace.due()
    pace.answered()
    assert await pace.due() >= first


def test_the_rate_is_counted_over_the_time_until_the_last_result() -> None:
    assert LoadResult(array("d", [1.0, 2.0, 3.0]), seconds=6.0).requests_per_second == 0.5
