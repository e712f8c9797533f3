"""A worker that has to go does not wait for what cannot come."""

import asyncio
import time
from collections.abc import Callable

from tests.flow.conftest import World

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
