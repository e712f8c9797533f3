"""Which partition receives nothing although it should, and what is no such thing."""

import pytest

from consumer.errors import Hindrance
from consumer.health import Condition
from consumer.lane import Held, Hold
from consumer.records import Standing, TopicPartition
from consumer.unread import Cause
from tests.unit.observed import PLACE, UNREAD_SECONDS, Observed, deliver_head, receive, settle_head

OTHER = TopicPartition("requests", 4)


def seconds(observed: Observed, cause: Cause, partition: TopicPartition = PLACE) -> float:
    return {(place, why): value for place, why, value in observed.health.unread.seconds()}[partition, cause]


def test_an_idle_partition_is_never_unread(observed: Observed) -> None:
    receive(observed.assign(), 3)
    lane = observed.lanes[PLACE]
    observed.answer(3, 3)
    while lane.items:
        settle_head(lane)
        deliver_head(lane)
    observed.pass_time(100 * UNREAD_SECONDS)
    assert observed.not_ready() == set()
    assert seconds(observed, Cause.STARVED) <= 1


def test_a_partition_that_may_be_read_and_receives_nothing_makes_unready_until_it_does(observed: Observed) -> None:
    lane = observed.assign()
    observed.answer(32, 32)
    observed.pass_time(UNREAD_SECONDS)
    assert observed.not_ready() == set()
    observed.pass_time(2)
    assert observed.not_live() == set(), "a restart would not help"
    [reason] = observed.health.not_ready(observed.now)
    assert reason.condition is Condition.LANE_STARVED
    assert reason.detail == (
        "requests[3] has received nothing for 31 s: it may be read from offset 0 to 31, and nothing of that has come"
    )
    assert seconds(observed, Cause.STARVED) == 31
    receive(lane, 1)
    observed.pass_time(1)
    assert observed.not_ready() == set()
    assert seconds(observed, Cause.STARVED) == 0


def test_a_partition_whose_fetches_are_not_answered_is_starved_whatever_it_has(observed: Observed) -> None:
    observed.assign()
    observed.answering = False
    observed.pass_time(UNREAD_SECONDS + 2)
    [reason] = observed.health.not_ready(observed.now)
    assert reason.condition is Condition.LANE_STARVED
    assert reason.detail.endswith("its broker answers no fetch")
    observed.answering = True
    observed.pass_time(1)
    assert observed.not_ready() == set()


def test_so_is_one_that_was_never_answered(observed: Observed) -> None:
    observed.assign()
    del observed.fetched[PLACE]
    observed.pass_time(UNREAD_SECONDS + 2)
    [reason] = observed.health.not_ready(observed.now)
    assert reason.condition is Condition.LANE_STARVED
    assert reason.detail.endswith("no fetch of it has been answered")


def test_holes_in_the_offsets_that_the_position_steps_over_are_progress(observed: Observed) -> None:
    lane = observed.assign()
    observed.answer(1000, 1000)
    for offset in range(10):
        observed.pass_time(UNREAD_SECONDS - 1)
        lane.receive((), 100 * (offset + 1), 0.0)
    observed.pass_time(UNREAD_SECONDS + 2)
    assert observed.not_ready() == set(), "it has come to the end of the log"


def test_a_transaction_that_stays_open_is_named_with_what_it_keeps_from_being_read(observed: Observed) -> None:
    observed.assign()
    observed.answer(0, 7)
    observed.pass_time(UNREAD_SECONDS)
    assert observed.not_ready() == set()
    observed.pass_time(2)
    assert observed.not_live() == set()
    [reason] = observed.health.not_ready(observed.now)
    assert reason.condition is Condition.TRANSACTION_OPEN
    assert reason.detail.endswith("an open transaction keeps its records from offset 0 to 6 from being read")
    assert (seconds(observed, Cause.OPEN_TRANSACTION), seconds(observed, Cause.STARVED)) == (31, 0)
    observed.answer(8, 8)
    observed.pass_time(1)
    assert observed.not_ready() == set(), "it has ended, and the time for what may now be read begins"
    observed.pass_time(UNREAD_SECONDS + 1)
    assert observed.not_ready() == {Condition.LANE_STARVED}


def test_transactions_that_end_are_calm_though_one_is_always_open(observed: Observed) -> None:
    lane = observed.assign()
    for turn in range(60):
        observed.answer(10 * turn, 10 * turn + 15)
        observed.pass_time(1)
        lane.receive((), 10 * turn, 0.0)
        observed.pass_time(1)
        assert observed.not_ready() == set()
        assert seconds(observed, Cause.OPEN_TRANSACTION) <= 2


def test_a_partition_with_something_in_flight_waits_for_that(observed: Observed) -> None:
    """It moves, or it is held or stuck."""
    lane = observed.assign()
    receive(lane, 1)
    observed.answer(1000, 1000)
    lane.holds[Hold.REDIS] = Held("redis: no answer in 1 s")
    observed.pass_time(UNREAD_SECONDS + 2)
    assert observed.not_ready() == {Condition.LANE_HELD}


def test_memory_that_others_have_filled_is_waited_for_and_memory_that_nobody_has_is_not(observed: Observed) -> None:
    observed.memory.limit_bytes = 1
    other = observed.assign(OTHER)
    receive(other, 2)
    observed.assign()
    observed.answer(5, 5)
    for _ in range(UNREAD_SECONDS + 2):
        receive(other, 1)
        settle_head(other)
        deliver_head(other)
        observed.pass_time(1)
    assert observed.not_ready() == set()
    observed.answer(other.next_offset or 0, other.next_offset or 0, OTHER)
    while other.items:
        settle_head(other)
        deliver_head(other)
    observed.memory.charged_bytes = 1
    observed.pass_time(UNREAD_SECONDS + 2)
    assert observed.not_ready() == {Condition.LANE_STARVED}


@pytest.mark.parametrize("standing", [Standing.OUTSIDE, Standing.REBALANCING])
def test_who_is_no_member_reads_nothing_for_that_and_the_time_begins_when_it_is_one(
    observed: Observed, standing: Standing
) -> None:
    observed.assign()
    observed.answer(5, 5)
    observed.pass_time(UNREAD_SECONDS - 1)
    observed.standing = standing
    observed.pass_time(UNREAD_SECONDS)
    assert Condition.LANE_STARVED not in observed.not_ready()
    observed.standing = Standing.MEMBER
    observed.pass_time(UNREAD_SECONDS)
    assert observed.not_ready() == set()
    observed.pass_time(2)
    assert observed.not_ready() == {Condition.LANE_STARVED}


@pytest.mark.parametrize("hindrance", Hindrance)
def test_what_has_a_name_keeps_it_from_reading_by_that_name(observed: Observed, hindrance: Hindrance) -> None:
    observed.assign()
    observed.answer(5, 5)
    observed.hindrances = {hindrance: "in these words"}
    observed.pass_time(10 * UNREAD_SECONDS)
    assert observed.not_ready() == {Condition(hindrance.value)}


def test_a_partition_that_is_given_back_or_assigned_anew_is_not_unread(observed: Observed) -> None:
    for _ in range(5):
        observed.assign()
        observed.answer(5, 5)
        observed.pass_time(UNREAD_SECONDS)
    observed.lanes[PLACE].begin_closing()
    observed.pass_time(10 * UNREAD_SECONDS)
    assert observed.not_ready() == set()


def test_time_in_which_the_process_was_frozen_does_not_count(observed: Observed) -> None:
    observed.assign()
    observed.answer(5, 5)
    observed.now += 1000
    observed.health.look(observed.now)
    observed.pass_time(UNREAD_SECONDS - 3)
    assert observed.not_ready() == set()


def test_it_is_told_once_while_it_lasts_and_again_when_it_comes_again(observed: Observed) -> None:
    lane = observed.assign()
    told = []
    for turn in range(2):
        observed.answer(turn + 5, turn + 5)
        for _ in range(2 * UNREAD_SECONDS):
            observed.pass_time(1)
            told += observed.health.unread.newly_too_long()
        lane.receive((), turn + 5, 0.0)
        observed.pass_time(1)
        assert observed.health.unread.newly_too_long() == []
    assert [(unread.partition, unread.cause) for unread in told] == [(PLACE, Cause.STARVED)] * 2
