"""What stands on a topic, read from outside."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient


async def read_topic(
    bootstrap_servers: str, topic: str, count: int, timeout_seconds: float = 60.0
) -> list[ConsumerRecord]:
    """The first `count` records of a topic, and whatever else has come by then; by partition in offset order.

    Raises TimeoutError, telling how many came, when there are fewer after the timeout.
    """
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed")
    await consumer.start()
    try:
        await consumer._client.force_metadata_update()
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + timeout_seconds
        while len(records) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(records)} of {count} records on {topic} after {timeout_seconds:g} s")
            for came in (await consumer.getmany(timeout_ms=200)).values():
                records += came
        return sorted(records, key=lambda record: (record.partition, record.offset))
    finally:
        await consumer.stop()


async def committed_offsets(bootstrap_servers: str, group: str, topic: str) -> dict[int, int]:
    """Partition -> the group's committed offset."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(group)
        return {partition.partition: one.offset for partition, one in offsets.items() if partition.topic == topic}
    finally:
        await admin.close()


async def wait_committed(
    bootstrap_servers: str, group: str, topic: str, total: int, timeout_seconds: float = 30.0
) -> None:
    """Until the sum of the committed offsets is `total`."""
    deadline = time.monotonic() + timeout_seconds
    while (now := sum((await committed_offsets(bootstrap_servers, group, topic)).values())) != total:
        if time.monotonic() > deadline:
            raise TimeoutError(f"committed {now} of {total} after {timeout_seconds:g} s")
        await asyncio.sleep(0.1)
