"""An engine that dies, hangs, or fails on one record: that record pays, and nobody else."""

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from consumer.errors import EngineDead
from consumer.recovery import TOLD_RECORDS
from consumer.suspects import KILLS_TO_REJECT
from tests.flow.conftest import FlowWorker, World, source_offset

MakeWorld = Callable[..., World]


async def test_a_deadly_record_costs_one_dead_letter_and_its_neighbours_nothing(make_world: MakeWorld):
    """The log leads to it: what was inside, then what was there alone, then what is refused for it."""
    world = make_world(2)
    world.publish(40, 0)
    world.publish(1, 0, document="!die")
    world.publish(40, 0)
    world.publish(40, 1)
    with capture_logs() as log:
        worker = await world.start(engine__restart_period_seconds=0.000001)
        first_engine = worker.engine
        await world.until_all_committed()
    world.assert_complete_and_ordered()
    deaths = [line for line in log if line["event"] == "engine died"]
    assert [len(one["inside"]) for one in deaths] == [min(TOLD_RECORDS, one["records_inside"]) for one in deaths]
    assert deaths[-1]["inside"] == ["score.requests/0/40"]
    alone = [line["request"] for line in log if line["event"] == "killed by the request that it had alone"]
    assert alone == ["score.requests/0/40"] * KILLS_TO_REJECT
    assert [line["request"] for line in log if line["event"] == "deadly request refused"] == ["score.requests/0/40"]
    assert worker.engine is not first_engine
    codes = [answer.get("error", {}).get("code") for answer in world.answers()]
    assert codes == [None] * 40 + ["engine_rejected"] + [None] * 40
    assert [source_offset(record) for record in world.dead.records[0]] == [40]
    assert len(world.results.records[0]) + len(world.results.records[1]) == 121, "nothing twice"


async def test_a_deadly_record_does_not_kill_each_owner_in_turn(make_world: MakeWorld):
    """Each process restarts its engine once; what it learnt goes on in the commit's metadata."""
    world = make_world()
    world.publish(20)
    world.publish(1, document="!die")
    world.publish(20)
    with capture_logs() as log_of_the_first:
        first = await world.start()
        with pytest.raises(ExceptionGroup) as failure:
            await first.running
    assert failure.value.subgroup(EngineDead)
    assert world.dead.records[0] == []
    assert world.committed() <= 20
    world.workers.remove(first)
    world.group.members.remove(first.source)
    with capture_logs() as log:
        second = await world.start()
        await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert [source_offset(record) for record in world.dead.records[0]] == [20]
    assert [line["request"] for line in log if line["event"] == "deadly request refused"] == ["score.requests/0/20"]
    deaths = [line for line in [*log_of_the_first, *log] if line["event"] == "engine died"]
    tries = sum("score.requests/0/20" in line["inside"] for line in deaths)
    assert tries >= 2
    assert dict(world.dead.records[0][0].headers)["scorestream-attempts"] == b"%d" % tries
    assert not second.running.done()


async def test_a_record_that_spoils_its_micro_batch_pays_alone(make_world: MakeWorld):
    """The engine fails on all of a micro-batch together and does not say on which."""
    world = make_world(2)
    world.publish(40, 0)
    world.publish(1, 0, document="!fail")
    world.publish(40, 0)
    world.publish(40, 1)
    worker = await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    codes = [answer.get("error", {}).get("code") for answer in world.answers()]
    assert codes == [None] * 40 + ["internal"] + [None] * 40
    assert [source_offset(record) for record in world.dead.records[0]] == [40]
    assert len(world.results.records[0]) + len(world.results.records[1]) == 121, "nothing twice"
    assert (worker.flow.window.sequences, worker.flow.window.tokens) == (0, 0)


async def test_an_engine_that_hangs_is_replaced_and_everything_in_it_replayed(make_world: MakeWorld):
    world = make_world()
    world.publish(20)
    world.publish(1, document="!hang")
    world.publish(20)
    worker = await world.start(engine__restart_period_seconds=0.000001)
    for _ in range(3):
        with pytest.raises(EngineDead) as silence:
            await until_silent(worker)
        await worker.flow.engine_hangs(silence.value)
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert [source_offset(record) for record in world.dead.records[0]] == [20]
    assert len(world.results.records[0]) == 41, "nothing twice"


async def test_a_suspect_that_hangs_while_its_partition_is_taken_away_does_not_keep_the_engine(make_world: MakeWorld):
    """It was alone in the engine, so nothing else may enter; its lane is closed, so no head stands for it."""
    world = make_world(2)
    world.publish(1, 0, document="!hold")
    worker = await world.start(engine__restart_period_seconds=0.000001, shutdown__revoke_seconds=0.1)
    await world.until(lambda: len(worker.flow.recovery.inside) == 1, "it is in the engine")
    await worker.flow.engine_hangs(EngineDead("does not give it back"))
    await world.until(lambda: len(worker.flow.recovery.inside) == 1, "it is there again, alone")
    other = await world.start()
    world.publish(10, 0)
    world.publish(10, 1)
    await worker.flow.engine_hangs(EngineDead("does not give it back"))
    await world.until(lambda: worker.engine._held or other.engine._held, "its next owner has it")
    for owner in (worker, other):
        owner.engine.release()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert (worker.flow.window.sequences, worker.flow.recovery.inside) == (0, set())


async def until_silent(worker: FlowWorker) -> None:
    """Raises EngineDead once the engine does not answer a ping."""
    while True:
        await worker.engine.ping(0.05)
        await asyncio.sleep(0.01)


async def test_an_engine_that_dies_of_itself_dead_letters_nothing(make_world: MakeWorld):
    world = make_world()
    world.publish(200)
    worker = await world.start(engine__scripted_seconds_per_step=0.005)
    await world.until(lambda: worker.flow.tally.scored_sequences > 20, "it flows")
    worker.engine.die()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert world.dead.records[0] == []
    assert len(world.results.records[0]) == 200


async def test_a_held_engine_is_given_no_more_than_its_window_and_kafka_no_more_than_the_lane(make_world: MakeWorld):
    world = make_world()
    world.publish(500, document="!hold")
    worker = await world.start()
    await world.until(
        lambda: worker.flow.window.sequences == 16 and worker.flow.tally.received == 64, "the window and lane are full"
    )
    await asyncio.sleep(0.05)
    assert worker.flow.window.sequences == 16
    assert len(next(iter(worker.flow.ledger.lanes.values())).items) == 64
    assert worker.flow.tally.received == 64
