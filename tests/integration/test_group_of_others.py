"""A group that is not the workers' alone: who is there is named before a model loads, and nobody joins."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.protocol.group import JoinGroupRequest

from consumer.adapters.kafka_source import KafkaSource
from consumer.adapters.kafka_topics import read_facts
from consumer.errors import SettingsInvalid
from consumer.startup import GroupFacts, KafkaFacts
from scripts.kafka import environment
from scripts.kafka_home import kafka_home
from tests.contract.clusters import BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.integration.cases.case import Case, MakeCase
from tests.services.kafka import KafkaNode
from tests.services.process import DIE_WITH_PARENT

pytestmark = pytest.mark.kafka

JOINING_SECONDS = 60.0


@asynccontextmanager
async def stranger(servers: str, topic: str, group: str) -> AsyncIterator[None]:
    """An application that somebody has given the workers' group."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group, client_id="billing")
    await consumer.start()
    try:
        async with asyncio.timeout(JOINING_SECONDS):
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=100)
        yield
    finally:
        await consumer.stop()


@contextmanager
def console_consumer(kafka: KafkaNode, folder: Path, tool: str, *options: str) -> Iterator[None]:
    command = [str(kafka_home() / "bin" / tool), "--bootstrap-server", kafka.bootstrap_servers, *options]
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, *command],
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.kill()


async def group_of(cluster: BrokerCluster) -> GroupFacts:
    facts = await read_facts(cluster.kafka)
    assert isinstance(facts, KafkaFacts)
    assert facts.group is not None
    return facts.group


async def strangers_once_there(cluster: BrokerCluster) -> str:
    async with asyncio.timeout(JOINING_SECONDS):
        while True:
            if strangers := (await group_of(cluster)).strangers():
                return strangers
            await asyncio.sleep(0.3)


async def test_a_group_that_nobody_knows_has_nobody_in_it(kafka: KafkaNode) -> None:
    assert await group_of(BrokerCluster(kafka.bootstrap_servers)) == GroupFacts("", "", ())


async def test_workers_are_no_strangers_while_they_are_there_and_afterwards(kafka: KafkaNode) -> None:
    cluster, receiver = BrokerCluster(kafka.bootstrap_servers), Receiver()
    await cluster.create(1)
    source = cluster.source()
    await joined(source, receiver, 1)
    group = await group_of(cluster)
    assert (group.kind, len(group.members or ()), group.strangers()) == ("consumer", 1, None)
    await cluster.close()
    left = await group_of(cluster)
    assert (left.members, left.strangers()) == ((), None)


async def test_a_consumer_of_the_classic_protocol_is_named(kafka: KafkaNode) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    async with stranger(kafka.bootstrap_servers, cluster.topic, cluster.topic):
        strangers = (await group_of(cluster)).strangers()
    assert strangers == "its members (consumer, by the protocol roundrobin) are not all workers: billing at 127.0.0.1"


async def test_a_consumer_of_the_new_protocol_is_named(kafka: KafkaNode, tmp_path: Path) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    options = ["--topic", cluster.topic, "--group", cluster.topic, "--command-property", "group.protocol=consumer"]
    with console_consumer(kafka, tmp_path, "kafka-console-consumer.sh", *options):
        strangers = await strangers_once_there(cluster)
    assert "console-consumer at 127.0.0.1" in strangers


async def test_a_group_of_another_kind_is_told(kafka: KafkaNode, tmp_path: Path) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    options = ["--topic", cluster.topic, "--group", cluster.topic]
    with console_consumer(kafka, tmp_path, "kafka-console-share-consumer.sh", *options):
        strangers = await strangers_once_there(cluster)
    assert strangers == "it is of the kind share, which no worker can join"


async def test_a_member_that_is_no_consumer_is_named_with_its_kind(kafka: KafkaNode) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    client = AIOKafkaClient(bootstrap_servers=kafka.bootstrap_servers, client_id="connect-1")
    await client.bootstrap()
    try:
        joining = JoinGroupRequest(cluster.topic, 30_000, 30_000, "", None, "connect", [("compatible", b"")])
        coordinator = await client.coordinator_lookup(CoordinationType.GROUP, cluster.topic)
        first = await client.send(coordinator, joining)
        again = JoinGroupRequest(cluster.topic, 30_000, 30_000, first.member_id, None, "connect", [("compatible", b"")])
        await client.send(coordinator, again)
        strangers = (await group_of(cluster)).strangers()
    finally:
        await client.close()
    assert strangers is not None
    assert "connect" in strangers
    assert "connect-1 at 127.0.0.1" in strangers


async def test_a_join_that_the_group_does_not_take_names_who_is_there(kafka: KafkaNode) -> None:
    """When the stranger came between the look and the join."""
    cluster, receiver = BrokerCluster(kafka.bootstrap_servers), Receiver()
    await cluster.create(1)
    async with stranger(kafka.bootstrap_servers, cluster.topic, cluster.topic):
        source: KafkaSource = cluster.source()
        await source.join(receiver.assigned, receiver.revoked)
        with pytest.raises(SettingsInvalid, match=r"billing at 127\.0\.0\.1.*kafka\.group_id"):
            await fetch_until(source, receiver, lambda: False)
        await cluster.close()


async def test_a_worker_ends_with_2_and_names_who_is_there_before_it_warms_up(make_case: MakeCase) -> None:
    case: Case = await make_case(1)
    async with stranger(case.kafka.bootstrap_servers, case.place.topics.requests, case.place.name):
        worker = case.worker()
        worker.spawn()
        assert await worker.wait() == 2
    assert "billing at 127.0.0.1" in worker.tail()
    assert "set kafka.group_id" in worker.tail()
    assert "Traceback" not in worker.tail()
    assert not [event for event in worker.events() if event.get("event") in ("warming", "running")]
    again = await case.started("again")
    assert await again.stop() == 0
