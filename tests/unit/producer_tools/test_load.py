"""Pacing and latencies of a load."""

import asyncio
import time
from array import array

import pytest

from producer_tools.load import ClosedLoop, LoadResult, OpenLoop


async def test_an_open_loop_counts_a_late_request_from_when_it_was_due() -> None:
    pace = OpenLoop(requests_per_second=100)
    [first] = await pace.due(1)
    time.sleep(0.1)  # noqa: ASYNC251 - the loop stalls, as a busy sender does
    due = await pace.due(5)
    assert due == pytest.approx([first + 0.01 * number for number in range(1, 6)])


async def test_a_closed_loop_sends_when_an_answer_has_come() -> None:
    pace = ClosedLoop(concurrency=1)
    [first] = await pace.due(10)
    pace.answered()
    assert await pace.due(10) >= [first]


async def test_a_closed_loop_keeps_so_many_under_way_and_no_more() -> None:
    pace = ClosedLoop(concurrency=3)
    assert len(await pace.due(2)) == 2
    assert len(await pace.due(2)) == 1
    waiting = asyncio.ensure_future(pace.due(2))
    await asyncio.sleep(0)
    assert not waiting.done()
    pace.answered()
    assert len(await waiting) == 1


def test_the_rate_is_counted_over_the_time_until_the_last_result() -> None:
    assert LoadResult(arrivals=array("d", [1.0, 2.0, 3.0]), seconds=6.0).requests_per_second == 0.5


def test_the_steady_rate_leaves_out_how_the_pipeline_fills_and_empties() -> None:
    slow, steady, tail = (
        [float(one) for one in range(10)],
        [9 + one / 100 for one in range(1, 81)],
        [20.0 + one for one in range(10)],
    )
    result = LoadResult(arrivals=array("d", slow + steady + tail), seconds=30.0)
    assert result.steady_requests_per_second == pytest.approx(100, rel=0.02)
