"""The engine's window: wide enough that steps come back full, and no wider."""

import pytest

from consumer.records import Step
from consumer.windows import EngineWindow


def returned(window: EngineWindow, sequences: int, left: int, *, refused: bool) -> float:
    window.refused = refused
    window.step_returned(Step(sequences, sequences * 10, left, left * 10))
    return window.steps


def test_it_begins_at_its_widest_and_stays_there_without_news_of_steps():
    window = EngineWindow(100, 10_000, most_steps=4)
    assert (window.limit_sequences, window.limit_tokens) == (400, 40_000)
    assert window.admits(400, 4000)
    assert not window.admits(401, 4000)


def test_full_steps_while_more_than_one_waits_narrow_it_down_to_two():
    window = EngineWindow(100, 10_000, most_steps=4)
    steps = [returned(window, 100, 300, refused=True) for _ in range(20)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == pytest.approx(4 / 1.1)
    assert steps[-1] == 2
    assert window.limit_sequences == 200


def test_full_steps_while_one_waits_leave_it_as_it_is():
    window = EngineWindow(100, 10_000, most_steps=4)
    assert {returned(window, 100, 200, refused=True) for _ in range(5)} == {4}


def test_steps_that_are_not_full_widen_it_only_while_something_ready_did_not_fit():
    window = EngineWindow(100, 10_000, most_steps=4)
    for _ in range(20):
        returned(window, 100, 300, refused=True)
    assert {returned(window, 50, 20, refused=False) for _ in range(5)} == {2}, "there is nothing more to let in"
    assert returned(window, 50, 20, refused=True) == pytest.approx(2.2)
    assert [returned(window, 50, 20, refused=True) for _ in range(20)][-1] == 4, "and no wider than it may be"


def test_a_step_is_full_by_tokens_as_well_as_by_sequences():
    window = EngineWindow(1000, 1000, most_steps=4)
    assert returned(window, 95, 285, refused=True) < 4


def test_a_window_of_one_step_is_never_wider_or_narrower():
    window = EngineWindow(10, 1000)
    assert returned(window, 10, 30, refused=True) == 1
    assert returned(window, 1, 0, refused=True) == 1
