"""The drill itself, short; `make chaos` strikes for as long as you like."""

from pathlib import Path

import pytest

from tests.chaos.drill import Drill, Options, explain
from tests.chaos.plan import FIRST_MOVE_SECONDS, Fault, plan

SEED = 8


def test_a_seed_decides_every_move_and_each_fault_comes_before_any_comes_again() -> None:
    """So that a drill that found something can be run again."""
    moves = plan(SEED, 600, workers=3)
    assert moves == plan(SEED, 600, workers=3)
    assert moves != plan(SEED + 1, 600, workers=3)
    assert moves == sorted(moves, key=lambda move: move.at_seconds)
    assert all(FIRST_MOVE_SECONDS <= move.at_seconds < 600 and move.worker in range(3) for move in moves)
    rounds = len(moves) // len(Fault)
    assert rounds > 10
    for number in range(rounds):
        assert {move.fault for move in moves[number * len(Fault) :][: len(Fault)]} == set(Fault)


@pytest.mark.kafka
@pytest.mark.redis
async def test_nothing_is_lost_in_order_whatever_happens(tmp_path: Path) -> None:
    """Every fault once, some at the same time: complete, ordered, duplicates within the bound, dead letters the bad."""
    options = Options(SEED, seconds=36, requests_per_second=100)
    assert {move.fault for move in plan(options.seed, options.seconds, options.workers)} == set(Fault)
    judgement = await Drill(tmp_path, options, print).run()
    assert not judgement.mismatches, explain(judgement, SEED, tmp_path)
