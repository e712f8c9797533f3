"""What is alive, what is ready, and why not."""

import pytest

from consumer.errors import Hindrance
from consumer.fence import Uncommitted
from consumer.health import Condition, Health, Lifecycle
from consumer.lane import Held, Hold
from consumer.records import Standing
from consumer.sections import HealthSettings
from tests.unit.observed import REBALANCE_TIMEOUT_SECONDS, Observed


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
    observed.hindrances = {Hindrance.SOURCE_REFUSED: "group: GroupAuthorizationFailedError"}
    observed.pass_time(3600)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.SOURCE_REFUSED}


@pytest.mark.parametrize("hindrance", Hindrance)
def test_what_hinders_the_worker_with_kafka_is_told_by_name_and_a_restart_would_not_help(
    observed: Observed, hindrance: Hindrance
) -> None:
    observed.hindrances = {hindrance: "kafka:9092: in these words"}
    observed.pass_time(3600)
    assert observed.not_live() == set()
    [reason] = observed.health.not_ready(observed.now)
    assert (reason.condition.value, reason.detail) == (hindrance.value, "kafka:9092: in these words")


def test_what_hinders_only_the_clients_that_write_is_told_beside_the_partitions_that_they_hold(
    observed: Observed,
) -> None:
    lane = observed.assign()
    lane.holds[Hold.RESULTS_TOPIC] = Held("results: refuses the user", Hindrance.AUTHENTICATION_FAILED)
    reasons = observed.health.not_ready(observed.now)
    assert [reason.condition for reason in reasons] == [Condition.AUTHENTICATION_FAILED, Condition.LANE_HELD]
    assert reasons[0].detail == "results: refuses the user"
    lane.holds.clear()
    assert observed.not_ready() == set(), "nothing of it is left when the write is taken"


def test_without_a_coordinator_the_worker_is_alive_and_unready_for_any_time(observed: Observed) -> None:
    observed.standing = Standing.OUTSIDE
    observed.pass_time(3600)
    assert observed.not_live() == set()
    assert observed.not_ready() == {Condition.NOT_A_MEMBER}


def test_everything_that_is_wrong_is_told(observed: Observed) -> None:
    observed.assign().holds[Hold.REDIS] = Held("redis: no answer in 1 s")
    observed.standing = Standing.OUTSIDE
    observed.hindrances = {Hindrance.SOURCE_REFUSED: "group: not authorized"}
    observed.uncommitted = Uncommitted("not authorised", answered=True)
    observed.client_failure = "ended"
    assert observed.not_ready() == {
        Condition.CLIENT_ENDED,
        Condition.NOT_A_MEMBER,
        Condition.SOURCE_REFUSED,
        Condition.COMMITS_REFUSED,
        Condition.LANE_HELD,
    }


def test_causes_are_told_before_what_comes_of_them(observed: Observed) -> None:
    observed.assign().holds[Hold.RESULTS_TOPIC] = Held("results: no broker", Hindrance.BROKER_AWAY)
    observed.hindrances = {Hindrance.SOURCE_REFUSED: "group: not authorized"}
    observed.standing = Standing.OUTSIDE
    observed.uncommitted = Uncommitted("not authorised", answered=True)
    observed.engine_restarting = True
    assert [reason.condition for reason in observed.health.not_ready(observed.now)] == [
        Condition.ENGINE_RESTARTING,
        Condition.BROKER_AWAY,
        Condition.SOURCE_REFUSED,
        Condition.NOT_A_MEMBER,
        Condition.COMMITS_REFUSED,
        Condition.LANE_HELD,
    ]
