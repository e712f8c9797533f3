"""A member that leaves in the middle of a join: at once, and nobody waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka.admin import AIOKafkaAdminClient

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_source import KafkaSource
from consumer.records import Standing
from tests.contract.clusters import OPERATION_SECONDS, BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.services.kafka import KafkaNode
from tests.services.process import wait_until

PARTITIONS = 4
HOLD_SECONDS = 20.0
"""For so long a member holds its partitions; more than any test waits for."""
BUSY_SECONDS = 5.0
"""What a busy machine may need for what takes no time."""


@pytest_asyncio.fixture
async def cluster(kafka: KafkaNode) -> AsyncIterator[BrokerCluster]:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(PARTITIONS)
    yield cluster
    await cluster.close()


class Holder:
    """A member that has all partitions, and in a rebalance gives them up only when it is let."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.source = cluster.source()
        self.receiver = Receiver()
        self.asked, self.let = asyncio.Event(), asyncio.Event()
        self._reading: asyncio.Task[None]

    async def begin(self) -> None:
        await self.source.join(self.receiver.assigned, self._revoked)
        await fetch_until(self.source, self.receiver, lambda: len(self.source.assignment()) == PARTITIONS)
        self._reading = asyncio.create_task(self._read())

    async def end(self) -> None:
        self._reading.cancel()
        await self.source.leave()

    async def _revoked(self, partitions: frozenset) -> None:
        await self.receiver.revoked(partitions)
        self.asked.set()
        await self.let.wait()

    async def _read(self) -> None:
        while True:
            await self.source.fetch(dict.fromkeys(self.source.assignment(), 10), self.receiver.receive, 0.05)


async def members(cluster: BrokerCluster) -> list[str]:
    """Of the group, as the broker counts them; also those that are joining."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka.bootstrap_servers)
    await admin.start()
    try:
        [response] = await admin.describe_consumer_groups([cluster.kafka.group_id])
        [group] = response.to_object()["groups"]
        return [member["member_id"] for member in group["members"]]
    finally:
        await admin.close()


async def test_a_member_that_still_joins_leaves_at_once_and_the_others_get_all_partitions(
    cluster: BrokerCluster,
) -> None:
    holder = Holder(cluster)
    await holder.begin()
    joining, receiver = cluster.source(), Receiver()
    await joining.join(receiver.assigned, receiver.revoked)
    async with asyncio.timeout(HOLD_SECONDS):
        await holder.asked.wait()
    assert joining.standing() is not Standing.MEMBER
    assert len(await members(cluster)) == 2, "it waits at the broker"
    began = time.monotonic()
    await joining.leave()
    assert time.monotonic() - began < BUSY_SECONDS
    assert joining.not_left is None
    assert len(await members(cluster)) == 1
    holder.let.set()
    began = time.monotonic()
    await wait_until(lambda: len(holder.source.assignment()) == PARTITIONS, "all partitions are back")
    assert time.monotonic() - began < BUSY_SECONDS, "nobody is waited for"
    await holder.end()


@pytest.mark.parametrize("delay_seconds", [0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3])
async def test_at_whatever_moment_of_its_join_a_member_leaves_the_group_does_not_wait_for_it(
    cluster: BrokerCluster, delay_seconds: float
) -> None:
    """Before the coordinator is known, between the two questions of a join, and while it waits for the answer."""
    holder = Holder(cluster)
    await holder.begin()
    joining, receiver = cluster.source(), Receiver()
    await joining.join(receiver.assigned, receiver.revoked)
    await asyncio.sleep(delay_seconds)
    began = time.monotonic()
    await joining.leave()
    assert time.monotonic() - began < BUSY_SECONDS
    assert joining.not_left is None
    assert len(await members(cluster)) == 1
    holder.let.set()
    witness, receiver = cluster.source(), Receiver()
    await joined(witness, receiver, PARTITIONS // 2)
    await holder.end()


async def test_a_member_leaves_in_the_middle_of_a_later_rebalance_too(cluster: BrokerCluster) -> None:
    holder = Holder(cluster)
    holder.let.set()
    await holder.begin()
    leaving, receiver = cluster.source(), Receiver()
    await joined(leaving, receiver, PARTITIONS // 2)
    holder.let.clear()
    holder.asked.clear()
    reading = asyncio.create_task(fetch_until(leaving, receiver, lambda: leaving.standing() is Standing.REBALANCING))
    third, third_receiver = cluster.source(), Receiver()
    await third.join(third_receiver.assigned, third_receiver.revoked)
    async with asyncio.timeout(HOLD_SECONDS):
        await holder.asked.wait()
        await reading
    await third.leave()
    began = time.monotonic()
    await leaving.leave()
    assert time.monotonic() - began < BUSY_SECONDS
    assert leaving.not_left is None
    assert len(await members(cluster)) == 1
    holder.let.set()
    await wait_until(lambda: len(holder.source.assignment()) == PARTITIONS, "all partitions are back")
    await holder.end()


async def test_a_static_member_that_joins_ends_at_once_and_does_not_leave(cluster: BrokerCluster) -> None:
    holder = Holder(cluster)
    await holder.begin()
    joining = KafkaSource(cluster.kafka.model_copy(update={"group_instance_id": "static"}), OPERATION_SECONDS)
    receiver = Receiver()
    await joining.join(receiver.assigned, receiver.revoked)
    async with asyncio.timeout(HOLD_SECONDS):
        await holder.asked.wait()
    began = time.monotonic()
    await joining.leave()
    assert time.monotonic() - began < BUSY_SECONDS
    assert joining.not_left is None, "it was not meant to"
    assert len(await members(cluster)) == 2
    holder.let.set()
    await holder.end()


async def test_a_coordinator_that_is_elsewhere_now_is_looked_for(cluster: BrokerCluster) -> None:
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, PARTITIONS)
    coordinator = source._consumer._coordinator
    coordinator.coordinator_id = 999
    assert kafka_internals.knows_coordinator(source._consumer)
    await source.leave()
    assert source.not_left is None
    assert await members(cluster) == []


async def test_who_could_not_leave_says_so(tmp_path) -> None:
    node = KafkaNode(tmp_path)
    await node.start()
    try:
        cluster = BrokerCluster(node.bootstrap_servers)
        await cluster.create(1)
        source, receiver = KafkaSource(cluster.kafka, 2.0), Receiver()
        await joined(source, receiver, 1)
        node.freeze()
        await source.leave()
        assert source.not_left is not None
        assert "its session has to expire" in source.not_left
        assert cluster.kafka.group_id in source.not_left
        node.thaw()
    finally:
        await node.kill()
