"""What the Kafka source tells of its membership and of its client's health, without being asked to fetch."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka.errors import KafkaError

from consumer.adapters.kafka_source import KafkaSource
from consumer.records import Standing, TopicPartition
from tests.contract.clusters import BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.services.kafka import KafkaNode
from tests.services.process import wait_until


@pytest_asyncio.fixture
async def cluster(kafka: KafkaNode) -> AsyncIterator[BrokerCluster]:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    yield cluster
    await cluster.close()


@pytest_asyncio.fixture
async def own_kafka(tmp_path: Path) -> AsyncIterator[KafkaNode]:
    node = KafkaNode(tmp_path)
    await node.start()
    yield node
    await node.kill()


@pytest_asyncio.fixture
async def own_cluster(own_kafka: KafkaNode) -> AsyncIterator[BrokerCluster]:
    cluster = BrokerCluster(own_kafka.bootstrap_servers)
    await cluster.create(1)
    yield cluster
    await cluster.close()


async def test_a_membership_is_interrupted_by_a_rebalance_and_may_be_empty(cluster: BrokerCluster) -> None:
    first, second = cluster.source(), cluster.source()
    assert first.standing() is Standing.OUTSIDE
    seen: list[Standing] = []

    class Watching(Receiver):
        async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
            seen.append(first.standing())

    watching, receiver = Watching(), Receiver()
    await joined(first, watching, 1)
    assert first.standing() is Standing.MEMBER
    await second.join(receiver.assigned, receiver.revoked)
    both = (first, second)
    await wait_until(lambda: bool(seen), "a rebalance")
    await wait_until(lambda: all(one.standing() is Standing.MEMBER for one in both), "two members")
    assert seen == [Standing.REBALANCING]
    assert sorted(len(one.assignment()) for one in both) == [0, 1]


async def test_a_member_whose_coordinator_went_away_is_outside_and_comes_back(
    own_cluster: BrokerCluster, own_kafka: KafkaNode
) -> None:
    source, receiver = own_cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await own_kafka.kill()
    await fetch_until(source, receiver, lambda: source.standing() is Standing.OUTSIDE)
    assert source.failure() is None, "an outage ends none of the client's tasks"
    await own_kafka.start()
    await fetch_until(source, receiver, lambda: source.standing() is Standing.MEMBER)


@pytest.mark.parametrize("task", ["fetch", "coordination"])
async def test_a_task_of_the_client_that_ended_is_told_and_raised_by_the_next_fetch(
    cluster: BrokerCluster, task: str
) -> None:
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    assert source.failure() is None
    break_task(source, task)
    await wait_until(lambda: source.failure() is not None, "the end of the task is told")
    assert task in (source.failure() or "")
    with pytest.raises(KafkaError, match="nexpected error"):
        await fetch_until(source, receiver, lambda: False)


def break_task(source: KafkaSource, task: str) -> None:
    """Let it fail at its next turn."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    if task == "fetch":
        source._consumer._fetcher._get_actions_per_node = broken
    else:
        source._consumer._coordinator.need_rejoin = broken
        source._consumer._coordinator.request_rejoin()
