"""The drills that measure, short: that they run, and what must hold however busy the machine is."""

from pathlib import Path

import pytest

from tests.chaos import kills, overload
from tests.chaos.running import log_tails

pytestmark = [pytest.mark.kafka, pytest.mark.redis]


async def test_each_kill_repeats_at_most_what_was_uncommitted_on_each_partition(tmp_path: Path) -> None:
    wrong = await kills.drill(tmp_path, kills=4, seed=2, requests_per_second=100)
    assert not wrong, "\n".join([*wrong, log_tails(tmp_path)])


async def test_overload_is_answered_expired_or_in_time_and_nothing_is_dead_lettered_or_held(tmp_path: Path) -> None:
    """Three times what a slow engine can score, each request with a second."""
    found = await overload.measure(
        tmp_path, seconds=10, timeout_ms=1000, tell=print, step_sequences=8, backlog_seconds=4
    )
    assert not found.wrong, "\n".join([*found.wrong, log_tails(tmp_path)])
    assert set(found.codes) == {"ok", "expired"}
    assert found.goodput > found.capacity / 2
