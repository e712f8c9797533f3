"""Whatever a producer compresses with, and a topic that compresses by itself, can be read."""

from collections.abc import AsyncIterator

import pytest_asyncio
from aiokafka import AIOKafkaProducer

from consumer.records import TopicPartition
from consumer.startup import CODECS
from tests.contract.clusters import BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.services.kafka import KafkaNode, create_topics


@pytest_asyncio.fixture
async def cluster(kafka: KafkaNode) -> AsyncIterator[BrokerCluster]:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    yield cluster
    await cluster.close()


async def publish_with_every_codec(cluster: BrokerCluster) -> list[bytes]:
    values = []
    for codec in (None, *CODECS):
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.kafka.bootstrap_servers, compression_type=codec
        ) as producer:
            values.append(f"{codec} ".encode() * 1_000)
            await producer.send(cluster.topic, values[-1], partition=0)
    return values


async def test_batches_of_every_codec_can_be_read(cluster: BrokerCluster) -> None:
    await cluster.create(1)
    values = await publish_with_every_codec(cluster)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == len(values))
    assert receiver.values[TopicPartition(cluster.topic, 0)] == values


async def test_a_topic_that_compresses_with_zstd_can_be_read(cluster: BrokerCluster) -> None:
    """Brokers refuse it to clients whose fetches are too old."""
    await create_topics(cluster.kafka.bootstrap_servers, {cluster.topic: 1}, {"compression.type": "zstd"})
    values = await publish_with_every_codec(cluster)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == len(values))
    assert receiver.values[TopicPartition(cluster.topic, 0)] == values
