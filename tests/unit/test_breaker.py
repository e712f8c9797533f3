"""When a partition is held, and when it goes on."""

from collections.abc import Sequence

import pytest

from consumer.breaker import SUSPICIOUS, Breaker, Verdict
from consumer.sections import BreakerSettings
from schemas.errors import ErrorCode

SETTINGS = BreakerSettings(window_records=10, share=0.5, probe_seconds=30)
ADMITTED, OPENED, REOPENED, STILL_OPEN = Verdict.ADMITTED, Verdict.OPENED, Verdict.REOPENED, Verdict.STILL_OPEN


def judged(breaker: Breaker, codes: Sequence[ErrorCode | None], now: float = 0.0) -> list[Verdict]:
    return [breaker.judge(code, now) for code in codes]


def test_six_of_ten_hold_the_partition():
    breaker = Breaker(SETTINGS)
    assert judged(breaker, [None] * 4 + [ErrorCode.INTERNAL] * 6) == [ADMITTED] * 9 + [OPENED]
    assert breaker.open


def test_it_tells_the_code_that_was_most_frequent_and_not_the_one_that_came_last():
    breaker = Breaker(SETTINGS)
    judged(breaker, [ErrorCode.WRONG_MODEL] * 8 + [ErrorCode.NON_FINITE] * 2)
    assert breaker.opened_by is ErrorCode.WRONG_MODEL


def test_what_left_the_window_is_not_the_reason():
    breaker = Breaker(SETTINGS)
    judged(breaker, [ErrorCode.NON_FINITE] * 4 + [None] * 10 + [ErrorCode.INTERNAL] * 3 + [ErrorCode.NON_FINITE] * 2)
    assert not breaker.open
    judged(breaker, [ErrorCode.INTERNAL])
    assert breaker.opened_by is ErrorCode.INTERNAL


def test_fewer_outcomes_than_the_window_never_hold():
    breaker = Breaker(SETTINGS)
    assert judged(breaker, [ErrorCode.INTERNAL] * 9) == [ADMITTED] * 9


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - SUSPICIOUS))
def test_clients_faults_and_deadlines_never_hold(code: ErrorCode):
    breaker = Breaker(SETTINGS)
    assert judged(breaker, [code] * 100) == [ADMITTED] * 100


def test_one_probe_per_period_and_the_first_other_outcome_releases():
    breaker = Breaker(SETTINGS)
    judged(breaker, [ErrorCode.WRONG_MODEL] * 10, 100.0)
    assert [breaker.probe_due(now) for now in (100.0, 129.9, 130.0, 130.1, 160.0)] == [False, False, True, False, True]
    assert breaker.judge(ErrorCode.WRONG_MODEL, 160.0) is STILL_OPEN
    assert breaker.judge(None, 190.0) is ADMITTED
    assert not breaker.open
    assert judged(breaker, [ErrorCode.WRONG_MODEL] * 9) == [ADMITTED] * 9, "the window starts anew"


def test_it_opens_anew_only_after_a_whole_window_that_went_well():
    """Between the bad requests there are good ones, one of which lets the partition go each time."""
    breaker = Breaker(SETTINGS)
    bad = [ErrorCode.WRONG_MODEL] * 10
    assert judged(breaker, bad)[-1] is OPENED
    for _ in range(5):
        assert judged(breaker, [None, *bad])[-1] is REOPENED
    assert judged(breaker, [None, *[None] * 4, *bad[:6]])[-1] is REOPENED, "the first whole window went badly"
    assert judged(breaker, [None, *[None] * 5, *bad[:6]])[-1] is OPENED, "the first one went well"
