"""Dependencies that fail, partitions that move, workers that die: nothing lost, in order, bounded."""

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from consumer.errors import EngineDead
from consumer.item import HELD_BYTES_PER_RAW_BYTE
from tests.flow.conftest import MAX_FETCH_BYTES, FlowWorker, World, source_offset

MakeWorld = Callable[..., World]


async def test_refused_write_goes_again_in_order(make_world: MakeWorld):
    world = make_world()
    world.publish(50)
    worker = await world.start()
    worker.results.refuse_next = 3
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert len(world.results.records[0]) == 50


async def test_lost_acknowledgement_makes_duplicates_but_never_disorder(make_world: MakeWorld):
    world = make_world()
    world.publish(50)
    worker = await world.start(limits__chunk_records=10)
    worker.results.lose_next = 2
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert 50 < len(world.results.records[0]) <= 70


async def test_without_redis_nothing_is_committed_and_results_are_not_repeated(make_world: MakeWorld):
    world = make_world()
    world.scores.available = False
    world.publish(30)
    await world.start()
    await world.until(lambda: bool(world.results.records[0]), "results are on the topic")
    written = len(world.results.records[0])
    await asyncio.sleep(0.05)
    assert world.committed() == 0
    assert len(world.results.records[0]) == written
    world.scores.available = True
    await world.until_all_committed()
    assert len(world.results.records[0]) == 30
    assert len(world.scores.values) == 30


async def test_without_dead_letter_topic_the_partition_waits_and_passes_nothing(make_world: MakeWorld):
    world = make_world(2)
    world.publish(3, 0)
    world.publish(1, 0, document="!reject")
    world.publish(3, 0)
    world.publish(50, 1)
    worker = await world.start()
    worker.dead_letters.writer.refuse_next = 4
    await world.until(lambda: world.committed(1) == 50, "the other partition is done")
    assert world.committed(0) <= 3
    await world.until_all_committed()
    assert len(world.dead.records[0]) == 1


async def test_uncommitted_records_are_bounded_while_commits_fail(make_world: MakeWorld):
    world = make_world()
    world.publish(200)
    world.group.commits_open.clear()
    await world.start(limits__max_uncommitted_records=20)
    await world.until(lambda: len(world.results.records[0]) == 20, "emission reached its bound")
    await asyncio.sleep(0.1)
    assert len(world.results.records[0]) == 20
    world.group.commits_open.set()
    await world.until_all_committed()
    world.assert_complete_and_ordered()


async def test_a_deadly_record_costs_one_dead_letter_and_its_neighbours_nothing(make_world: MakeWorld):
    world = make_world(2)
    world.publish(40, 0)
    world.publish(1, 0, document="!die")
    world.publish(40, 0)
    world.publish(40, 1)
    worker = await world.start(engine__restart_period_seconds=0.000001)
    first_engine = worker.engine
    await world.until_all_committed()
    world.assert_complete_and_ordered()
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
    first = await world.start()
    with pytest.raises(ExceptionGroup) as failure:
        await first.running
    assert failure.value.subgroup(EngineDead)
    assert world.dead.records[0] == []
    assert world.committed() <= 20
    world.workers.remove(first)
    world.group.members.remove(first.source)
    second = await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert [source_offset(record) for record in world.dead.records[0]] == [20]
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
    await world.until(lambda: len(worker.flow.in_engine) == 1, "it is in the engine")
    await worker.flow.engine_hangs(EngineDead("does not give it back"))
    await world.until(lambda: len(worker.flow.in_engine) == 1, "it is there again, alone")
    other = await world.start()
    world.publish(10, 0)
    world.publish(10, 1)
    await worker.flow.engine_hangs(EngineDead("does not give it back"))
    await world.until(lambda: worker.engine._held or other.engine._held, "its next owner has it")
    for owner in (worker, other):
        owner.engine.release()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert (worker.flow.window.sequences, worker.flow.in_engine) == (0, set())


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
    await world.until(lambda: worker.flow.window.sequences == 16, "the window is full")
    await asyncio.sleep(0.05)
    assert worker.flow.window.sequences == 16
    assert len(next(iter(worker.flow.ledger.lanes.values())).items) == 64
    assert worker.flow.tally.received == 64


async def test_memory_is_bounded_in_bytes_up_to_one_fetch_of_each_partition(make_world: MakeWorld):
    world = make_world(4)
    for partition in range(4):
        world.publish(40, partition, document="!hold " + "w" * 10_000)
    worker = await world.start(limits__memory_bytes=4_000_000)
    await world.until(lambda: not worker.flow.ledger.room(), "nothing more is asked for")
    memory = worker.flow.ledger.memory
    assert memory.charged_bytes <= memory.limit_bytes + 4 * MAX_FETCH_BYTES * HELD_BYTES_PER_RAW_BYTE
    world.publish(40, 0)
    received = worker.flow.tally.received
    await asyncio.sleep(0.05)
    assert worker.flow.tally.received == received < 160


async def test_a_quiet_partition_does_not_wait_for_a_hot_one(make_world: MakeWorld):
    world = make_world(2)
    world.publish(3000, 0)
    await world.start()
    await world.until(lambda: len(world.results.records[0]) > 200, "the hot partition flows")
    world.publish(5, 1)
    hot_before = len(world.results.records[0])
    await world.until(lambda: world.committed(1) == 5, "the quiet partition is done")
    assert len(world.results.records[0]) - hot_before < 500


async def test_a_partition_that_moves_is_finished_and_committed_first(make_world: MakeWorld):
    world = make_world(2)
    world.publish(300, 0)
    world.publish(300, 1)
    await world.start()
    await world.until(lambda: len(world.results.records[1]) > 20, "it flows")
    await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert [len(records) for records in world.results.records] == [300, 300], "no duplicates"


async def test_a_stuck_engine_costs_a_revoke_no_more_than_its_budget(make_world: MakeWorld):
    world = make_world()
    world.publish(2)
    world.publish(1, document="!hold")
    world.publish(20)
    first = await world.start(shutdown__revoke_seconds=0.2, micro_batch__max_records=1)
    await world.until(lambda: world.committed() == 2, "the head is stuck")
    second = await world.start()
    await world.until(lambda: second.flow.tally.received == 21 or first.flow.tally.received > 23, "it has moved")
    first.engine.release()
    second.engine.release()
    await world.until(
        lambda: bool(second.engine.release() or first.engine.release()) or world.committed() == 23, "all is committed"
    )
    world.assert_complete_and_ordered()


async def test_a_partition_that_comes_back_is_not_touched_by_earlier_work(make_world: MakeWorld):
    """A -> B -> A: what A had in its engine under the first assignment is swallowed."""
    world = make_world()
    world.publish(1, document="!hold")
    world.publish(10)
    first = await world.start(shutdown__revoke_seconds=0.1, micro_batch__max_records=1)
    await world.until(lambda: first.flow.tally.scored_sequences == 10, "all but the held one are scored")
    await world.group.rebalance()
    await world.until(lambda: first.flow.tally.scored_sequences == 20, "and again under the second assignment")
    first.engine.release()
    await world.until_all_committed()
    assert len(world.results.records[0]) == 11
    world.assert_complete_and_ordered()


async def test_an_expelled_worker_commits_nothing_and_order_survives(make_world: MakeWorld):
    world = make_world()
    world.publish(400)
    first = await world.start()
    await world.until(lambda: world.committed() > 20, "it flows")
    second = await world.start()
    before = world.committed()
    await world.group.expel(first.source)
    world.publish(100)
    await world.until(lambda: world.committed() > before, "the other goes on")
    await world.group.readmit(first.source)
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert second.running.done() is False


async def test_drain_finishes_what_was_started_and_a_restart_repeats_nothing(make_world: MakeWorld):
    world = make_world(2)
    world.publish(500, 0)
    world.publish(500, 1)
    first = await world.start()
    await world.until(lambda: len(world.results.records[0]) > 50, "it flows")
    await first.drain()
    assert world.committed(0) == len(world.results.records[0])
    assert world.committed(1) == len(world.results.records[1])
    assert first.flow.ledger.memory.charged_bytes == 0
    await world.start()
    await world.until_all_committed()
    assert [len(records) for records in world.results.records] == [500, 500]


@pytest.mark.parametrize("seed", range(12))
async def test_any_number_of_crashes_at_any_moment_loses_nothing(make_world: MakeWorld, seed: int):
    """Kill, restart, add and drain workers at random while writes are refused and acknowledgements lost."""
    chance = random.Random(seed)
    world = make_world(3)
    options = {
        "limits__max_uncommitted_records": 30,
        "shutdown__revoke_seconds": 0.2,
        "shutdown__drain_seconds": 0.2,
    }
    alive = [await world.start(**options)]
    crashes = 0
    for _ in range(25):
        world.publish(chance.randrange(60), chance.randrange(3))
        if chance.random() < 0.2:
            world.publish(1, chance.randrange(3), document="!reject")
        await asyncio.sleep(chance.random() * 0.02)
        worker = chance.choice(alive)
        move = chance.choice(["crash", "drain", "join", "refuse", "lose", "redis"])
        if move == "crash":
            await worker.crash()
            world.workers.remove(worker)
            world.group.members.remove(worker.source)
            alive.remove(worker)
            crashes += 1
            await world.group.rebalance()
        elif move == "drain":
            await worker.drain()
            world.workers.remove(worker)
            alive.remove(worker)
        elif move == "refuse":
            worker.results.refuse_next = 1
        elif move == "lose":
            worker.results.lose_next = 1
        elif move == "redis":
            world.scores.available = not world.scores.available
        if move == "join" or not alive:
            alive.append(await world.start(**options))
    world.scores.available = True
    await world.until_all_committed(60)
    world.assert_complete_and_ordered()
    rejected = {record.offset for record in world.requests.records[0] if b"!reject" in (record.value or b"")}
    dead = {int(dict(one.headers)["scorestream-source-offset"] or 0) for one in world.dead.records[0]}
    assert dead == rejected


async def test_after_a_stall_nothing_is_emitted_until_a_commit_is_accepted(make_world: MakeWorld):
    world = make_world()
    world.publish(20)
    worker = await world.start(kafka__session_timeout_seconds=6, kafka__heartbeat_interval_seconds=1)
    await world.until_all_committed()
    world.group.commits_open.clear()
    worker.clock.stall_seconds += 4
    world.publish(5)
    await world.until(lambda: worker.flow.tally.scored_sequences == 25, "the new ones are scored")
    await asyncio.sleep(0.1)
    assert len(world.results.records[0]) == 20
    world.group.commits_open.set()
    await world.until_all_committed()
    assert len(world.results.records[0]) == 25


async def test_a_stalled_worker_that_lost_its_partitions_emits_nothing(make_world: MakeWorld):
    world = make_world()
    world.publish(20)
    first = await world.start(kafka__session_timeout_seconds=6, kafka__heartbeat_interval_seconds=1)
    await world.until_all_committed()
    first.clock.stall_seconds += 4
    await world.group.expel(first.source)
    world.publish(5)
    second = await world.start()
    await world.until_all_committed()
    assert len(world.results.records[0]) == 25
    assert second.flow.tally.answered == 5


async def test_a_broken_deployment_holds_the_partition_instead_of_draining_it_into_dead_letters(
    make_world: MakeWorld, monkeypatch
):
    world = make_world(2)
    world.publish(5, 0)
    world.publish(60, 1, model="another")
    world.publish(100, 0)
    worker = await world.start(breaker__window_records=10, breaker__share=0.5, breaker__probe_seconds=0.05)
    task = worker.flow._preparer._tasks["score"]
    prepare = task.prepare

    def broken(request, texts):
        raise RuntimeError("a bad deployment")

    await world.until(lambda: world.committed(0) == 105, "the first partition is answered")
    monkeypatch.setattr(task, "prepare", broken)
    world.publish(100, 0)
    lane = next(lane for lane in worker.flow.ledger.lanes.values() if lane.partition.partition == 0)
    await world.until(lambda: lane.breaker.open, "the partition is held")
    held_at = world.committed(0)
    await world.until(lambda: lane.items[0].attempt > 3, "it was probed")
    assert held_at <= world.committed(0) < 105 + 10
    assert len(world.dead.records[0]) < 10
    assert lane.held_by == "breaker"
    monkeypatch.setattr(task, "prepare", prepare)
    await world.until(lambda: world.committed(0) == 205, "it goes on after the repair")
    assert world.first_offsets(0) == list(range(205))
    assert world.committed(1) <= 10, "nine were dead letters before the partition was held"


async def test_answers_that_still_leave_do_not_hide_that_the_partition_is_held(make_world: MakeWorld):
    world = make_world()
    world.publish(5)
    worker = await world.start(breaker__window_records=10, breaker__share=0.5)
    worker.results.open.clear()
    await world.until(lambda: bool(worker.flow.ledger.lanes), "the partition is assigned")
    [lane] = worker.flow.ledger.lanes.values()
    await world.until(lambda: lane.outstanding is not None, "good answers are on their way")
    world.publish(50, model="another")
    await world.until(lambda: lane.breaker.open, "the partition is held")
    leaving = len(lane.outstanding.items)
    worker.results.open.set()
    await world.until(lambda: world.committed() == leaving, "the good answers are committed")
    assert lane.held_by == "breaker"


async def test_the_breaker_may_open_while_other_micro_batches_are_being_shaped(make_world: MakeWorld, monkeypatch):
    world = make_world()
    world.publish(300)
    worker = await world.start(
        breaker__window_records=5, breaker__share=0.5, breaker__probe_seconds=0.05, micro_batch__max_records=4
    )
    task = worker.flow._preparer._tasks["score"]
    shape = task.shape

    def slow_and_broken(prepared, outputs):
        time.sleep(0.002)
        raise RuntimeError("a bad deployment")

    monkeypatch.setattr(task, "shape", slow_and_broken)
    lane = next(iter(worker.flow.ledger.lanes.values()))
    await world.until(lambda: lane.items and lane.items[0].attempt > 3, "it is held and was probed")
    monkeypatch.setattr(task, "shape", shape)
    await world.until_all_committed()
    world.assert_complete_and_ordered()
