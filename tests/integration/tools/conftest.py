"""For tests of the tools."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.conftest import CreateTopics
from tests.fakes.echo_worker import EchoWorker
from tests.integration.tools.place import PARTITIONS, Place
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode


@pytest_asyncio.fixture
async def place(kafka: KafkaNode, redis: RedisNode, topics: CreateTopics) -> AsyncIterator[Place]:
    names = await topics(kafka, **PARTITIONS)
    prefix = f"{names['requests']}:"
    yield Place(
        EchoWorker(kafka.bootstrap_servers, names["requests"], names["results"], names["dead"], redis.url, prefix)
    )
