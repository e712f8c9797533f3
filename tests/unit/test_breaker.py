"""When a partition is held, and when it goes on."""

import pytest

from consumer.breaker import SUSPICIOUS, Breaker
from consumer.sections import BreakerSettings
from schemas.errors import ErrorCode

SETTINGS = BreakerSettings(window_records=10, share=0.5, probe_seconds=30)


def test_six_of_ten_hold_the_partition():
    breaker = Breaker(SETTINGS)
    assert all(breaker.admits(None, 0.0) for _ in range(4))
    assert [breaker.admits(ErrorCode.INTERNAL, 0.0) for _ in range(6)] == [True] * 5 + [False]
    assert breaker.open


def test_fewer_outcomes_than_the_window_never_hold():
    breaker = Breaker(SETTINGS)
    assert all(breaker.admits(ErrorCode.INTERNAL, 0.0) for _ in range(9))


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - SUSPICIOUS))
def test_clients_faults_and_deadlines_never_hold(code: ErrorCode):
    breaker = Breaker(SETTINGS)
    assert all(breaker.admits(code, 0.0) for _ in range(100))


def test_one_probe_per_period_and_the_first_other_outcome_releases():
    breaker = Breaker(SETTINGS)
    for _ in range(10):
        breaker.admits(ErrorCode.WRONG_MODEL, 100.0)
    assert [breaker.probe_due(now) for now in (100.0, 129.9, 130.0, 130.1, 160.0)] == [False, False, True, False, True]
    assert not breaker.admits(ErrorCode.WRONG_MODEL, 160.0)
    assert breaker.admits(None, 190.0)
    assert not breaker.open
    assert all(breaker.admits(ErrorCode.WRONG_MODEL, 190.0) for _ in range(9)), "the window starts anew"
