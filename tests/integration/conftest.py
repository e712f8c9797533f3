"""Deployments for tests that watch workers from outside."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.cases.case import PARTITIONS, Case, MakeCase
from tests.services.kafka import KafkaNode, create_topics
from tests.services.redis import RedisNode


@pytest_asyncio.fixture(scope="session")
async def quick_kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaNode]:
    """A broker that lets members have a short session, so that a dead one is not waited for."""
    node = KafkaNode(tmp_path_factory.mktemp("quick-kafka"), {"group.min.session.timeout.ms": "1000"})
    await node.start()
    yield node
    await node.stop()


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
