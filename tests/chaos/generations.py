"""How often a consumer group has changed its members, read from the broker's own record of it."""

import struct

from aiokafka import AIOKafkaConsumer, TopicPartition

GROUPS_TOPIC = "__consumer_offsets"
GROUP_METADATA_KEY = 2
"""Version of the keys under which a group's members stand; lower ones are offsets."""
FLEXIBLE_SINCE = 4
"""From this version of the value on, strings are written in another way."""


async def generation(bootstrap_servers: str, group: str) -> int:
    """The latest generation of the group that the broker has recorded, 0 for a group that it does not know.

    The format is Kafka's own: GroupMetadataKey.json and GroupMetadataValue.json of its group coordinator. Raises
    ValueError for a version of the value that is not known here.
    """
    # Compaction may take away the place where it reads: from the beginning again, not from the end.
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    latest = 0
    try:
        await consumer._client.force_metadata_update()
        partitions = [TopicPartition(GROUPS_TOPIC, number) for number in consumer.partitions_for_topic(GROUPS_TOPIC)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    if record.value is not None and record.key == _key(group):
                        latest = max(latest, _generation_of(record.value))
    finally:
        await consumer.stop()
    return latest


def _key(group: str) -> bytes:
    name = group.encode()
    return struct.pack(">hh", GROUP_METADATA_KEY, len(name)) + name


def _generation_of(value: bytes) -> int:
    version, protocol_type_bytes = struct.unpack_from(">hh", value)
    if version >= FLEXIBLE_SINCE:
        raise ValueError(f"version {version} of a group's record is not known")
    (number,) = struct.unpack_from(">i", value, 4 + protocol_type_bytes)
    return int(number)
