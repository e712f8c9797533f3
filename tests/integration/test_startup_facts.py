"""The facts that start-up decides on, read from real servers."""

import asyncio
import socket
from pathlib import Path

import pytest
from pydantic import SecretStr

from consumer.adapters import kafka_topics, redis_scores
from consumer.errors import Hindrance
from consumer.records import Message
from consumer.sections import Compression, KafkaSettings, RedisSettings
from consumer.startup import KafkaFacts, RedisFacts, TopicFacts, Unreachable
from producer_tools.connections import refusal
from producer_tools.connections.kafka import Brokers
from producer_tools.console import ToolFailure
from producer_tools.kafka import open_publisher, open_reader
from tests.conftest import CreateTopics
from tests.contract.clusters import BrokerCluster, Receiver
from tests.services import process
from tests.services.embedded import EmbeddedNode
from tests.services.kafka import KafkaNode, create_topics
from tests.services.redis import RedisNode


def settings_of(servers: str, topic: str = "none") -> KafkaSettings:
    names = {"request_topic": topic, "result_topic": f"{topic}.results", "dead_letter_topic": f"{topic}.dead"}
    return KafkaSettings(bootstrap_servers=servers, group_id=topic, **names)


async def test_topics_partitions_policies_and_limits_are_read(kafka: KafkaNode, topics: CreateTopics) -> None:
    names = await topics(kafka, requests=4)
    kafka_settings = settings_of(kafka.bootstrap_servers, names["requests"])
    configs = {"cleanup.policy": "compact", "max.message.bytes": "12345"}
    await create_topics(kafka.bootstrap_servers, {kafka_settings.result_topic: 2}, configs)
    facts = await kafka_topics.read_facts(kafka_settings)
    assert isinstance(facts, KafkaFacts)
    assert facts.topics == {
        kafka_settings.request_topic: TopicFacts(4, "delete", kafka_topics.DEFAULT_MAX_MESSAGE_BYTES),
        kafka_settings.result_topic: TopicFacts(2, "compact", 12345),
    }
    assert facts.cluster_id
    assert (facts.min_session_timeout_ms, facts.max_session_timeout_ms) == (6_000, 1_800_000)


async def test_looking_creates_no_topic(tmp_path: Path) -> None:
    node = KafkaNode(tmp_path, {"auto.create.topics.enable": "true"})
    await node.start()
    try:
        for _ in range(2):
            facts = await kafka_topics.read_facts(settings_of(node.bootstrap_servers, "absent"))
            assert isinstance(facts, KafkaFacts)
            assert facts.topics == {}
    finally:
        await node.kill()


async def test_the_embedded_broker_is_understood(embedded: EmbeddedNode, topics: CreateTopics) -> None:
    names = await topics(embedded, requests=3)
    for _ in range(2):  # the second time it would show what the first has changed
        facts = await kafka_topics.read_facts(settings_of(embedded.bootstrap_servers, names["requests"]))
        assert isinstance(facts, KafkaFacts)
        assert facts.topics[names["requests"]].partitions == 3
        assert facts.missing_rights == ()
    redis_facts = await redis_scores.read_facts(RedisSettings(url=SecretStr(embedded.redis_url)))
    assert isinstance(redis_facts, RedisFacts)


async def test_each_address_is_named_with_what_happened_there(free_port: int) -> None:
    servers = f"127.0.0.1:{free_port}, no-such-host.invalid:9092"
    facts = await kafka_topics.read_facts(settings_of(servers))
    assert isinstance(facts, Unreachable)
    refused, unresolved = facts.reason.split("; ")
    assert refused == f"127.0.0.1:{free_port}: Connection refused"
    assert unresolved.startswith("no-such-host.invalid:9092: the name no-such-host.invalid does not resolve")


async def test_one_address_of_several_is_enough(kafka: KafkaNode, free_port: int) -> None:
    servers = f"127.0.0.1:{free_port},{kafka.bootstrap_servers}"
    assert isinstance(await kafka_topics.read_facts(settings_of(servers)), KafkaFacts)


async def test_what_is_not_a_kafka_broker_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "STEP_SECONDS", 0.5)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", family=socket.AF_INET)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        facts = await kafka_topics.read_facts(settings_of(address))
    assert isinstance(facts, Unreachable)
    assert f"{address}: accepts connections but does not answer like a Kafka broker" in facts.reason


async def test_an_advertised_address_that_cannot_be_reached_is_named_with_the_step_that_fails(
    tmp_path: Path, free_port: int
) -> None:
    """By `check`, by the tools, and by a worker that runs."""
    node = KafkaNode(tmp_path)
    nobody, unresolved, own_unresolved = free_port, *(process.free_port(count=2) + number for number in range(2))
    own_nobody = process.free_port()
    node.properties |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},NOBODY://127.0.0.1:{own_nobody},"
        f"UNRESOLVED://127.0.0.1:{own_unresolved},CONTROLLER://127.0.0.1:{node.port + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.port},NOBODY://127.0.0.1:{nobody},"
        f"UNRESOLVED://kafka-0.invalid:{unresolved}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NOBODY:PLAINTEXT,UNRESOLVED:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
    }
    await node.start()
    try:
        facts = await kafka_topics.read_facts(settings_of(f"127.0.0.1:{own_nobody}"))
        assert isinstance(facts, Unreachable)
        assert facts.reason == (
            f"127.0.0.1:{own_nobody} answers, and sends clients on to 127.0.0.1:{nobody}: Connection refused"
        )
        assert facts.fix.startswith("set the brokers' advertised.listeners to names and ports")
        facts = await kafka_topics.read_facts(settings_of(f"127.0.0.1:{own_unresolved}"))
        assert isinstance(facts, Unreachable)
        assert f"sends clients on to kafka-0.invalid:{unresolved}: the name kafka-0.invalid does not" in facts.reason
        assert isinstance(await kafka_topics.read_facts(settings_of(node.bootstrap_servers)), KafkaFacts)
        for opened in (open_publisher, open_reader):
            with pytest.raises(ToolFailure, match=f"sends clients on to 127.0.0.1:{nobody}: Connection refused"):
                async with opened(Brokers(f"127.0.0.1:{own_nobody}")):
                    pass
        cluster, receiver = BrokerCluster(f"127.0.0.1:{own_nobody}"), Receiver()
        source = cluster.source()
        await source.join(receiver.assigned, receiver.revoked)
        async with asyncio.timeout(30):
            while Hindrance.BROKER_AWAY not in source.hindrances():
                await source.fetch({}, receiver.receive, 0.1)
        assert (
            f"sends clients on to 127.0.0.1:{nobody}: Connection refused" in source.hindrances()[Hindrance.BROKER_AWAY]
        )
        await cluster.close()
    finally:
        await node.kill()


async def test_a_policy_of_the_brokers_own_is_a_topic_s(tmp_path: Path) -> None:
    node = KafkaNode(tmp_path, {"log.cleanup.policy": "compact"})
    await node.start()
    try:
        await create_topics(node.bootstrap_servers, {"inherits": 1})
        facts = await kafka_topics.read_facts(settings_of(node.bootstrap_servers, "inherits"))
        assert isinstance(facts, KafkaFacts)
        assert facts.topics["inherits"].cleanup_policy == "compact"
    finally:
        await node.kill()


async def test_nobody_at_the_redis_address_is_named(free_port: int) -> None:
    url = f"redis://:secret@127.0.0.1:{free_port}/0"
    facts = await redis_scores.read_facts(RedisSettings(url=SecretStr(url)))
    assert isinstance(facts, Unreachable)
    assert f"127.0.0.1:{free_port}" in facts.reason
    assert "secret" not in facts.reason


async def test_redis_tells_its_version(redis: RedisNode) -> None:
    facts = await redis_scores.read_facts(RedisSettings(url=SecretStr(redis.url), prefix="nobody:"))
    assert isinstance(facts, RedisFacts)
    assert int(facts.version.split(".")[0]) >= 6
    assert "nobody:" not in [claim.prefix for claim in facts.claims or ()]


def test_every_codec_is_here() -> None:
    assert kafka_topics.missing_codecs() == []


@pytest.mark.parametrize("compression", list(Compression))
async def test_what_is_written_with_every_compression_can_be_read(kafka: KafkaNode, compression: Compression) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    cluster.kafka = cluster.kafka.model_copy(update={"compression": compression})
    value = b"x" * 30_000
    await cluster.results().write(0, [Message(None, value, ())] * 5)
    assert [record.value for record in await cluster.records(0)] == [value] * 5
    await cluster.close()
