"""Which partition does not move, and what it waits for."""

import pytest

from consumer.errors import PartitionStuck
from consumer.fence import Uncommitted
from consumer.health import Condition, StuckHead
from consumer.lane import Held, Hold
from consumer.records import TopicPartition
from tests.unit.observed import PLACE, STUCK_SECONDS, Observed, deliver_head, receive, settle_head


def test_a_head_that_does_not_move_is_stuck_and_after_as_long_again_ends_the_worker(observed: Observed) -> None:
    receive(observed.assign(), 5)
    observed.pass_time(STUCK_SECONDS)
    assert observed.not_live() == set()
    observed.pass_time(2)
    assert observed.not_live() == {Condition.LANE_STUCK}
    assert observed.not_ready() == {Condition.LANE_STUCK}
    assert "requests[3]" in observed.health.not_live(observed.now)[0].detail
    with pytest.raises(PartitionStuck, match=r"<Lane requests\[3\] open watermark=0") as stuck:
        observed.pass_time(STUCK_SECONDS)
    assert str(stuck.value).startswith("requests[3] at offset 0 has not moved for 21 s, and nothing holds it: ")
    assert not stuck.value.in_engine


def test_a_stuck_head_is_told_once_with_its_place_before_liveness_fails(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 2)
    observed.pass_time(STUCK_SECONDS)
    told: list[StuckHead] = []
    for _ in range(STUCK_SECONDS):
        assert observed.not_live() == set() or told
        observed.pass_time(1)
        told += observed.health.newly_stuck()
    assert told == [StuckHead("requests", 3, 0, STUCK_SECONDS + 1)]
    settle_head(lane)
    deliver_head(lane)
    observed.pass_time(STUCK_SECONDS + 2)
    assert [head.offset for head in observed.health.newly_stuck()] == [1], "the next one is another head"


def test_a_head_that_a_hold_excused_for_a_while_is_not_told_again(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 1)
    observed.pass_time(STUCK_SECONDS + 2)
    assert len(observed.health.newly_stuck()) == 1
    lane.holds[Hold.REDIS] = Held("redis: no answer in 1 s")
    observed.pass_time(1)
    assert observed.health.newly_stuck() == []
    lane.holds.clear()
    observed.pass_time(STUCK_SECONDS + 2)
    assert observed.not_live() == {Condition.LANE_STUCK}
    assert observed.health.newly_stuck() == []


def test_of_several_stuck_heads_the_one_that_stood_still_first_is_named_first_and_the_end_names_all(
    observed: Observed,
) -> None:
    receive(observed.assign(TopicPartition("requests", 5)), 1)
    observed.pass_time(3)
    receive(observed.assign(), 1)
    observed.pass_time(STUCK_SECONDS + 2)
    assert [head.partition for head in observed.health.newly_stuck()] == [5, 3]
    assert "requests[5]" in observed.health.not_live(observed.now)[0].detail
    with pytest.raises(PartitionStuck, match=r"requests\[5\] at offset 0 .*; requests\[3\] at offset 0 "):
        observed.pass_time(STUCK_SECONDS)


def test_how_long_a_head_has_not_moved_is_told_before_it_is_stuck_and_forgotten_when_it_does(
    observed: Observed,
) -> None:
    """However long it had to wait for its turn before."""
    lane = observed.assign()
    receive(lane, 2)
    observed.pass_time(1)
    assert dict(observed.health.motionless_seconds()) == {PLACE: 0}
    observed.pass_time(STUCK_SECONDS // 2)
    assert dict(observed.health.motionless_seconds()) == {PLACE: STUCK_SECONDS // 2}
    settle_head(lane)
    deliver_head(lane)
    observed.pass_time(1)
    assert dict(observed.health.motionless_seconds()) == {PLACE: 0}
    lane.holds[Hold.REDIS] = Held("redis: no answer in 1 s")
    observed.pass_time(STUCK_SECONDS)
    assert dict(observed.health.motionless_seconds()) == {PLACE: 0}


def test_a_settled_head_that_nothing_delivers_is_stuck_too(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 1)
    settle_head(lane)
    observed.pass_time(STUCK_SECONDS + 2)
    assert observed.not_live() == {Condition.LANE_STUCK}


def test_a_long_queue_that_moves_is_never_stuck(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 20)
    for _ in range(20):
        observed.pass_time(STUCK_SECONDS - 1)
        settle_head(lane)
        deliver_head(lane)
    assert observed.not_live() == set()


def test_a_long_request_that_comes_back_in_pieces_is_never_stuck(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 1)
    lane.start(lane.items[0], 0.0)
    for _ in range(20):
        observed.pass_time(STUCK_SECONDS - 1)
        lane.items[0].returned += 1
    assert observed.not_live() == set()


def test_what_the_engine_does_not_give_back_is_told_before_liveness_fails_whatever_became_of_its_lane(
    observed: Observed,
) -> None:
    """Whoever kills the worker first would leave the next owner without a suspect."""
    lane = observed.assign()
    receive(lane, 1)
    observed.in_engine = {object()}
    observed.pass_time(STUCK_SECONDS - 1)
    lane.close()
    receive(observed.assign(), 2)
    observed.pass_time(1)
    with pytest.raises(PartitionStuck, match="the engine has not given back") as stuck:
        observed.pass_time(2)
    assert stuck.value.in_engine
    assert observed.not_live() == set()


def test_an_engine_that_is_busy_for_long_but_gives_everything_back_is_not_stuck(observed: Observed) -> None:
    for _ in range(10):
        observed.in_engine = {object(), object()}
        observed.pass_time(STUCK_SECONDS - 1)
    assert observed.not_live() == set()


@pytest.mark.parametrize("hold", Hold)
def test_a_held_lane_is_unready_by_name_and_never_stuck(observed: Observed, hold: Hold) -> None:
    lane = observed.assign()
    receive(lane, 1)
    observed.pass_time(STUCK_SECONDS - 1)
    lane.holds[hold] = Held("why")
    observed.pass_time(100 * STUCK_SECONDS)
    assert observed.not_live() == set()
    [reason] = observed.health.not_ready(observed.now)
    assert reason.condition is Condition.LANE_HELD
    assert reason.detail.startswith(f"{hold} holds <Lane requests[3]")
    assert reason.detail.endswith(": why")
    lane.holds.pop(hold)
    observed.pass_time(STUCK_SECONDS)
    assert observed.not_ready() == set(), "the time under the hold does not count"
    observed.pass_time(2)
    assert observed.not_live() == {Condition.LANE_STUCK}


def test_answers_on_their_way_out_wait_for_their_sinks_and_are_not_stuck(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 1)
    settle_head(lane)
    assert lane.take_chunk(1, 10**6, 10**6)
    observed.pass_time(100 * STUCK_SECONDS)
    assert observed.not_live() == set()


@pytest.mark.parametrize(
    ("answered", "condition"), [(True, Condition.COMMITS_REFUSED), (False, Condition.COMMITS_UNANSWERED)]
)
def test_commits_that_are_not_taken_make_the_worker_unready_and_excuse_answers_but_not_the_engine(
    observed: Observed, answered: bool, condition: Condition
) -> None:
    observed.uncommitted = Uncommitted("kafka: commit: no answer in 3 s", answered)
    lane = observed.assign()
    receive(lane, 1)
    settle_head(lane)
    observed.pass_time(100 * STUCK_SECONDS)
    assert observed.not_live() == set()
    assert observed.not_ready() == {condition}
    receive(lane, 1)
    deliver_head(lane)
    observed.pass_time(STUCK_SECONDS + 2)
    assert observed.not_live() == {Condition.LANE_STUCK}


def test_an_engine_that_is_started_again_makes_unready_and_nothing_stuck(observed: Observed) -> None:
    receive(observed.assign(), 1)
    observed.engine_restarting = True
    observed.pass_time(100 * STUCK_SECONDS)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.ENGINE_RESTARTING}


def test_a_closing_lane_is_never_stuck(observed: Observed) -> None:
    lane = observed.assign()
    receive(lane, 2)
    lane.start(lane.items[0], 0.0)
    lane.begin_closing()
    observed.pass_time(100 * STUCK_SECONDS)
    assert observed.not_live() == set()


def test_a_lane_of_a_new_assignment_starts_anew(observed: Observed) -> None:
    for _ in range(5):
        receive(observed.assign(), 1)
        observed.pass_time(STUCK_SECONDS - 1)
    assert observed.not_live() == set()


def test_time_in_which_the_process_was_frozen_counts_against_no_lane(observed: Observed) -> None:
    receive(observed.assign(), 1)
    observed.now += 1000
    observed.health.look(observed.now)
    observed.pass_time(STUCK_SECONDS - 3)
    assert observed.not_live() == set()
    observed.pass_time(5)
    assert observed.not_live() == {Condition.LANE_STUCK}
