"""The drills themselves, short; from a terminal they take as long as you like."""

from pathlib import Path

import pytest

from tests.chaos.drill import Drill, Options
from tests.chaos.plan import ANY_ENGINE, FIRST_MOVE_SECONDS, Fault, Move, duplicates_bound, plan
from tests.chaos.running import log_tails
from tests.chaos.workers import WorkerKill

SEED = 8


def test_a_seed_decides_every_move_and_each_fault_comes_before_any_comes_again() -> None:
    """So that a drill that found something can be run again."""
    moves = plan(SEED, 600, workers=3)
    assert moves == plan(SEED, 600, workers=3)
    assert moves != plan(SEED + 1, 600, workers=3)
    assert moves == sorted(moves, key=lambda move: move.at_seconds)
    assert all(FIRST_MOVE_SECONDS <= move.at_seconds < 600 and move.worker in range(3) for move in moves)
    rounds = len(moves) // len(ANY_ENGINE)
    assert rounds > 10
    for number in range(rounds):
        assert {move.fault for move in moves[number * len(ANY_ENGINE) :][: len(ANY_ENGINE)]} == set(ANY_ENGINE)


def test_poison_comes_in_between_and_moves_nothing_else() -> None:
    moves = plan(SEED, 60, workers=3, poisons=2)
    poisons = [move for move in moves if move.fault is Fault.POISON]
    assert len(poisons) == 2
    assert [move for move in moves if move not in poisons] == plan(SEED, 60, workers=3)
    assert moves == sorted(moves, key=lambda move: move.at_seconds)


@pytest.mark.parametrize(
    ("fault", "engine_ends", "bound"),
    [
        (Fault.KILL_WORKER, 0, 50 + 20),
        (Fault.TERMINATE_WORKER, 0, 2 * 20),
        (Fault.FREEZE_REDIS, 0, 0),
        (Fault.POISON, 0, 0),
        (Fault.POISON, 2, 2 * (50 + 20)),
    ],
)
def test_only_what_ends_an_assignment_may_repeat_work(fault: Fault, engine_ends: int, bound: int) -> None:
    moves = [Move(3.0, fault, 0, 1.0)]
    assert duplicates_bound(moves, engine_ends, uncommitted_records=50, chunk_records=20) == bound


@pytest.mark.kafka
@pytest.mark.redis
async def test_nothing_is_lost_in_order_whatever_happens(tmp_path: Path) -> None:
    """Every fault once, some at the same time: complete, ordered, duplicates within the bound, dead letters the bad."""
    options = Options(SEED, seconds=36, workers=3, requests_per_second=100, poisons=1)
    assert {move.fault for move in plan(SEED, options.seconds, workers=3)} == set(ANY_ENGINE)
    judgement = await Drill(tmp_path, options, print).run()
    assert not judgement.mismatches, "\n".join(
        [f"seed {SEED}: {judgement}", *judgement.mismatches, log_tails(tmp_path)]
    )


@pytest.mark.kafka
@pytest.mark.redis
async def test_kill_9_of_one_of_four_workers_costs_the_others_no_more_than_a_handover(tmp_path: Path) -> None:
    """And its own partitions no more than its session and two handovers; nothing is lost, and all is in order."""
    losses = await WorkerKill(tmp_path, 100, print).run(5)
    assert not losses.wrong, "\n".join([str(losses), *losses.wrong, log_tails(tmp_path)])
