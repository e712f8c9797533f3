"""What is alive, what is ready, and why not."""

from dataclasses import dataclass, field

import pytest

from consumer.breaker import Breaker
from consumer.errors import PartitionStuck
from consumer.health import Condition, Health, Lifecycle, Watched
from consumer.lane import Hold, Lane
from consumer.records import Outcome, SourceRecord, Standing, TopicPartition
from consumer.sections import BreakerSettings, HealthSettings
from consumer.windows import MemoryBudget
from schemas.errors import ErrorCode

STUCK_SECONDS = 10
REBALANCE_TIMEOUT_SECONDS = 30
PLACE = TopicPartition("requests", 3)
ANSWER = Outcome(result=None, code=ErrorCode.EXPIRED)


@dataclass
class Observed:
    """A worker that runs, as its health sees it; the test changes what there is to see and lets time pass."""

    now: float = 1000.0
    standing: Standing = Standing.MEMBER
    client_failure: str | None = None
    source_refusal: str | None = None
    broker_away: str | None = None
    commit_refusal: str | None = None
    engine_restarting: bool = False
    in_engine: set[object] = field(default_factory=set)
    lanes: dict[TopicPartition, Lane] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.health = Health(
            HealthSettings(stuck_seconds=STUCK_SECONDS, loop_lag_seconds=5), REBALANCE_TIMEOUT_SECONDS, self.now
        )
        self.health.watched = Watched(
            self.lanes,
            lambda: self.standing,
            lambda: self.client_failure,
            lambda: self.source_refusal,
            lambda: self.broker_away,
            lambda: self.commit_refusal,
            lambda: self.engine_restarting,
            lambda: self.in_engine,
        )
        self.health.lifecycle = Lifecycle.RUNNING
        self.pass_time(1)

    def pass_time(self, seconds: int) -> None:
        """Second by second, as the watchdog looks."""
        for _ in range(seconds):
            self.now += 1
            self.health.look(self.now)

    def not_live(self) -> set[Condition]:
        return {reason.condition for reason in self.health.not_live(self.now)}

    def not_ready(self) -> set[Condition]:
        return {reason.condition for reason in self.health.not_ready(self.now)}

    def assign(self) -> Lane:
        lane = Lane(PLACE, MemoryBudget(10**9, 1.0), Breaker(BreakerSettings()))
        self.lanes[PLACE] = lane
        return lane


def receive(lane: Lane, count: int) -> None:
    first = lane.next_offset or 0
    records = [SourceRecord(*PLACE, first + number, 0, None, b"{}", ()) for number in range(count)]
    lane.receive(records, first + count, 0.0)


def settle_head(lane: Lane) -> None:
    assert lane.settle(lane.items[0], ANSWER, 0.0)


def deliver_head(lane: Lane) -> None:
    chunk = lane.take_chunk(max_records=1, max_bytes=10**6, max_uncommitted_records=10**6)
    assert chunk
    lane.delivered(chunk)


@pytest.fixture
def observed() -> Observed:
    return Observed()


# ------------------------------------------------------------------------------------------------- lifecycle


@pytest.mark.parametrize("state", [state for state in Lifecycle if state is not Lifecycle.RUNNING])
def test_a_worker_that_does_not_run_is_alive_and_unready(observed: Observed, state: Lifecycle) -> None:
    observed.health.lifecycle = state
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.NOT_RUNNING}


def test_before_the_model_is_loaded_the_worker_is_alive_and_unready() -> None:
    health = Health(HealthSettings(), REBALANCE_TIMEOUT_SECONDS, now=0.0)
    assert health.not_live(0.5) == []
    assert [reason.condition for reason in health.not_ready(0.5)] == [Condition.NOT_RUNNING]


def test_an_idle_worker_without_partitions_is_ready(observed: Observed) -> None:
    observed.pass_time(1000)
    assert observed.not_ready() == set()


def test_a_worker_that_has_failed_and_is_still_closing_is_neither_alive_nor_ready(observed: Observed) -> None:
    observed.health.failure = "EngineDead: silent"
    assert observed.not_live() == {Condition.FAILED}
    assert observed.not_ready() == {Condition.FAILED}


def test_a_client_whose_tasks_have_ended_makes_the_worker_dead(observed: Observed) -> None:
    observed.client_failure = "the fetch task has ended"
    assert observed.not_live() == {Condition.CLIENT_ENDED}
    assert observed.not_ready() == {Condition.CLIENT_ENDED}


# -------------------------------------------------------------------------------------------------- event loop


def test_a_loop_that_keeps_coming_late_is_not_alive(observed: Observed) -> None:
    for _ in range(3):
        observed.now += 7
        observed.health.look(observed.now)
        assert observed.health.loop_lag_seconds == 6
        assert observed.not_live() == {Condition.LOOP_LAGS}
    observed.pass_time(1)
    assert observed.not_live() == set()


def test_a_look_that_is_overdue_is_seen_before_it_comes(observed: Observed) -> None:
    observed.now += 5.9
    assert observed.not_live() == set()
    observed.now += 0.2
    assert observed.not_live() == {Condition.LOOP_LAGS}


# ------------------------------------------------------------------------------------------------------- lanes


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
    assert not stuck.value.in_engine


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
    lane.holds[Hold.REDIS] = "redis: no answer in 1 s"
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
    lane.holds[hold] = "why"
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


def test_refused_commits_make_the_worker_unready_and_excuse_answers_but_not_the_engine(observed: Observed) -> None:
    observed.commit_refusal = "kafka: commit: no answer in 3 s"
    lane = observed.assign()
    receive(lane, 1)
    settle_head(lane)
    observed.pass_time(100 * STUCK_SECONDS)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.COMMITS_REFUSED}
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


# ------------------------------------------------------------------------------------------------------- group


def test_the_first_join_is_not_yet_a_membership() -> None:
    joining = Observed(standing=Standing.REBALANCING)
    assert joining.not_ready() == {Condition.NOT_A_MEMBER}
    joining.standing = Standing.MEMBER
    assert joining.not_ready() == set()


def test_a_rebalance_is_neither_a_failure_nor_unready_until_it_lasts_too_long(observed: Observed) -> None:
    observed.standing = Standing.REBALANCING
    observed.pass_time(2 * REBALANCE_TIMEOUT_SECONDS)
    assert observed.not_ready() == set()
    observed.pass_time(1)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.REBALANCE_TOO_LONG}
    observed.standing = Standing.MEMBER
    assert observed.not_ready() == set()


def test_what_the_broker_does_not_allow_makes_the_worker_unready_and_a_restart_would_not_help(
    observed: Observed,
) -> None:
    observed.source_refusal = "group: GroupAuthorizationFailedError"
    observed.pass_time(3600)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.SOURCE_REFUSED}


def test_without_a_broker_that_answers_the_worker_is_alive_and_unready_and_nothing_was_refused(
    observed: Observed,
) -> None:
    observed.broker_away = "kafka:9092: Connection refused"
    observed.pass_time(3600)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.BROKER_AWAY}


def test_without_a_coordinator_the_worker_is_alive_and_unready_for_any_time(observed: Observed) -> None:
    observed.standing = Standing.OUTSIDE
    observed.pass_time(3600)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.NOT_A_MEMBER}


def test_everything_that_is_wrong_is_told(observed: Observed) -> None:
    observed.assign().holds[Hold.REDIS] = "redis: no answer in 1 s"
    observed.standing = Standing.OUTSIDE
    observed.source_refusal = "group: not authorized"
    observed.commit_refusal = "no answer"
    observed.client_failure = "ended"
    assert observed.not_ready() == {
        Condition.CLIENT_ENDED,
        Condition.NOT_A_MEMBER,
        Condition.SOURCE_REFUSED,
        Condition.COMMITS_REFUSED,
        Condition.LANE_HELD,
    }
