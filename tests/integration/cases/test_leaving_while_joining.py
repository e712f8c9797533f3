"""SIGTERM to a worker that still joins, while others finish slow requests: it is gone at once, nobody waits for it."""

import asyncio
import signal
import time

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tests.integration.cases.case import DRAIN_SECONDS, PARTITIONS, Case, MakeCase, requests
from tests.services.process import wait_until
from tests.services.worker import WorkerProcess

pytestmark = pytest.mark.kafka

HOLD_SECONDS = 12
"""For so long the others' slow requests hold a rebalance; more than a worker that leaves may take."""
STATIC_SESSION_SECONDS = 9
BUSY_SECONDS = 8
"""What a busy machine may add."""
LONG: dict[str, object] = {
    "kafka.session_timeout_seconds": 60,
    "kafka.rebalance_timeout_seconds": 120,
    "kafka.request_timeout_seconds": 125,
    "shutdown.revoke_seconds": 2 * HOLD_SECONDS,
    "commit.timeout_seconds": 3,
}
"""For so long the group would wait for a worker that goes without a word."""


async def holding(case: Case) -> WorkerProcess:
    """A worker with a slow request of each partition in its engine."""
    holder = await case.started("holder")
    await case.until_members(1)
    for partition in range(PARTITIONS):
        await case.publish(requests(1, " ".join(["!wait"] * HOLD_SECONDS), first=partition), partition)
    await wait_until(lambda: any("received" in event for event in holder.events()), "received", 30)
    return holder


async def silence_seconds(case: Case, since: float) -> float:
    """From then until a new request of each partition is answered."""
    for partition in range(PARTITIONS):
        await case.publish(requests(1, first=100 + partition), partition)
    await case.results(2 * PARTITIONS, timeout_seconds=90)
    return time.monotonic() - since


async def until_joining(case: Case, members: int) -> None:
    """Until the group is in a rebalance with so many members."""
    admin = AIOKafkaAdminClient(bootstrap_servers=case.kafka.bootstrap_servers)
    await admin.start()
    try:
        async with asyncio.timeout(HOLD_SECONDS):
            while True:
                [response] = await admin.describe_consumer_groups([case.place.name])
                [group] = response.to_object()["groups"]
                if group["state"] == "PreparingRebalance" and len(group["members"]) == members:
                    return
                await asyncio.sleep(0.05)
    finally:
        await admin.close()


@pytest.mark.parametrize("instance_id", [None, "static"])
async def test_a_worker_told_to_stop_while_it_joins_leaves_and_no_partition_is_silent_for_longer_than_the_others_revoke(
    make_case: MakeCase, instance_id: str | None
):
    case = await make_case(settings=LONG)
    holder = await holding(case)
    settings: dict[str, object] = {}
    if instance_id is not None:
        settings = {"kafka.group_instance_id": instance_id, "kafka.session_timeout_seconds": STATIC_SESSION_SECONDS}
    joining = await case.started("joining", settings)
    await until_joining(case, 2)
    joining.send(signal.SIGTERM)
    began = time.monotonic()
    assert await joining.wait() == 0
    assert time.monotonic() - began < DRAIN_SECONDS
    silent = await silence_seconds(case, began)
    session = 0 if instance_id is None else STATIC_SESSION_SECONDS
    assert silent < HOLD_SECONDS + session + BUSY_SECONDS, "what a static member is given waits for its session"
    assert (await case.verified()).tally.duplicates == 0
    assert await holder.stop() == 0
