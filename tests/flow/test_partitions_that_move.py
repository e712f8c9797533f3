"""Partitions that move, workers that stall, drain or die: nothing lost, in order, nothing emitted by who lost them."""

import asyncio
import random
from collections.abc import Callable

import pytest

from tests.flow.conftest import World

MakeWorld = Callable[..., World]


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
