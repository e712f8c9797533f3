"""Deployments for tests that watch workers from outside."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chaos.drill import relayed_listener
from tests.integration.cases.case import PARTITIONS, Case, MakeCase
from tests.services.kafka import KafkaNode, create_topics
from tests.services.kafka_proxy import KafkaProxy
from tests.services.process import free_port
from tests.services.redis import RedisNode

QUICK_BROKER = {"group.min.session.timeout.ms": "1000", "log.cleaner.backoff.ms": "200"}
"""Properties: dead members are found out soon, and compacted topics compacted."""


@dataclass(frozen=True)
class QuickKafka:
    """A broker, and a way to it on which one kind of request can fail alone."""

    node: KafkaNode
    proxy: KafkaProxy


@pytest_asyncio.fixture(scope="session")
async def quick(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[QuickKafka]:
    """Its members may have a short session, so that a dead one is not waited for."""
    node = KafkaNode(tmp_path_factory.mktemp("quick-kafka"), QUICK_BROKER)
    proxied_port = free_port(count=2)
    node.properties |= relayed_listener(node.port, proxied_port, proxied_port + 1)
    await node.start()
    async with KafkaProxy(proxied_port + 1, proxied_port) as proxy:
        yield QuickKafka(node, proxy)
    await node.kill()


@pytest.fixture(scope="session")
def quick_kafka(quick: QuickKafka) -> KafkaNode:
    """A broker that lets members have a short session."""
    return quick.node


@pytest.fixture(scope="session")
def kafka_proxy(quick: QuickKafka) -> KafkaProxy:
    """The way to `quick_kafka` on which requests can fail: `{"kafka.bootstrap_servers": kafka_proxy.address}`."""
    return quick.proxy


@pytest_asyncio.fixture
async def make_case(
    quick_kafka: KafkaNode, redis: RedisNode, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[MakeCase]:
    """A deployment with topics of its own. Whatever worker the test leaves running is killed behind it."""
    made: list[Case] = []

    async def make(
        partitions: int = PARTITIONS,
        *,
        kafka: KafkaNode | None = None,
        cache: RedisNode | None = None,
        settings: dict[str, object] | None = None,
        configs: dict[str, dict[str, str]] | None = None,
    ) -> Case:
        kafka, cache = kafka or quick_kafka, cache or redis
        case = Case(kafka, cache, f"{request.node.originalname[:60]}.{len(made)}.{tmp_path.name[-8:]}", tmp_path)
        case.settings |= settings or {}
        made.append(case)
        topics = case.place.topics
        for topic in (topics.requests, topics.results, topics.dead_letters):
            await create_topics(kafka.bootstrap_servers, {topic: partitions}, (configs or {}).get(topic.split(".")[-1]))
        return case

    yield make
    for case in made:
        case.abandon()
