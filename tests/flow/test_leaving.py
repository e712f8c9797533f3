"""A worker that has to go does not wait for what cannot come."""

import asyncio
import time
from collections.abc import Callable

from structlog.testing import capture_logs

from tests.flow.conftest import FlowWorker, World

MakeWorld = Callable[..., World]

LONG_SECONDS = 15
"""A budget that no test waits for."""


async def test_a_worker_that_the_group_has_counted_out_gives_up_at_once(make_world: MakeWorld):
    """Its commits can only be refused, and the whole group would wait for it."""
    world = make_world()
    world.publish(1, document="!hold")
    world.publish(10)
    first = await world.start(shutdown__revoke_seconds=LONG_SECONDS, micro_batch__max_records=1)
    await world.until(lambda: first.flow.tally.scored_sequences == 10, "all but the held one are scored")
    await world.group.expel(first.source)
    await world.start()
    began = time.monotonic()
    await world.group.readmit(first.source)
    assert time.monotonic() - began < LONG_SECONDS
    assert not world.results.records[0]

    def answered_by_its_owner() -> bool:
        for worker in world.workers:
            worker.engine.release()
        return world.committed() == 11

    await world.until(answered_by_its_owner, "the owner of the partition answers")
    world.assert_complete_and_ordered()


async def test_a_drain_does_not_wait_for_partitions_that_a_rebalance_took_meanwhile(make_world: MakeWorld):
    world = make_world()
    world.publish(1, document="!hold")
    first = await world.start(shutdown__revoke_seconds=0.2, shutdown__drain_seconds=LONG_SECONDS)
    await world.until(lambda: first.flow.window.sequences == 1, "it is in the engine")
    began = time.monotonic()
    draining = asyncio.create_task(first.flow.drain())
    await world.until(lambda: all(lane.state.value == "closing" for lane in first.flow.ledger.lanes.values()), "begun")
    await world.group.rebalance()
    await draining
    assert time.monotonic() - began < LONG_SECONDS
    assert world.committed() == 0


async def given_back(worker: FlowWorker) -> tuple[str, object, object]:
    """What a drain says of it in the log: the level, the records that were not finished, those not committed."""
    with capture_logs() as log:
        await worker.flow.drain()
    [said] = [line for line in log if line["event"] == "given back"]
    return said["log_level"], said["unfinished_records"], said["uncommitted_records"]


async def test_a_drain_that_could_not_finish_says_so_at_warning(make_world: MakeWorld):
    """Redis is away: what waits for it goes to the next owners."""
    world = make_world()
    world.scores.available = False
    world.publish(5)
    worker = await world.start(shutdown__drain_seconds=0.2)
    await world.until(lambda: len(world.results.records[0]) == 5, "results are on the topic")
    assert await given_back(worker) == ("warning", 5, 0)


async def test_so_does_one_whose_last_commit_was_not_taken(make_world: MakeWorld):
    world = make_world()
    worker = await world.start(commit__timeout_seconds=0.1)
    await world.until_all_committed()
    world.group.operation_timeout_seconds = 0.1
    world.group.commits_open.clear()
    world.publish(5)
    await world.until(lambda: worker.flow.tally.delivered_records == 5, "answered, and not committed")
    assert await given_back(worker) == ("warning", 0, 5)


async def test_a_drain_that_finished_all_is_nobodys_concern(make_world: MakeWorld):
    world = make_world()
    world.publish(5)
    worker = await world.start()
    await world.until_all_committed()
    assert await given_back(worker) == ("info", 0, 0)
