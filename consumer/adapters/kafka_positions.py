"""Where reading goes on when Kafka has no place for it: no offset of the group, or one that the log does not have."""

from __future__ import annotations

from consumer.errors import SettingsInvalid
from consumer.records import TopicPartition
from consumer.sections import KafkaSettings, OffsetReset


def starts_at_end(kafka: KafkaSettings, partition: TopicPartition) -> bool:
    """Where a partition without a committed offset starts: else at its beginning.

    Raises SettingsInvalid when the operator wants to decide.
    """
    if kafka.auto_offset_reset is OffsetReset.NONE:
        raise SettingsInvalid(
            f"kafka.auto_offset_reset is none and the group {kafka.group_id} has no offset for {_name(partition)}: "
            f"set it to earliest or latest, or set the offset: {_reset_command(kafka, partition)}"
        )
    return kafka.auto_offset_reset is OffsetReset.LATEST


def what_was_lost(kafka: KafkaSettings, partition: TopicPartition, wanted: int, beginning: int) -> str:
    """Why the log does not have the offset `wanted`; `beginning` is the first one that it has, looked up later.

    The beginning only ever grows: one that is not beyond `wanted` says that the log ended below it.
    Reading goes on at the beginning, with `latest` too: that is for groups without an offset, and a group that has one
    never jumps over records that are there. Raises SettingsInvalid when the operator wants to decide.
    """
    if wanted < beginning:
        reason = f"retention removed {_name(partition)} from offset {wanted} to {beginning - 1} before it was read"
    else:
        reason = (
            f"{_name(partition)} ends below offset {wanted}, where the group {kafka.group_id} is: the topic was made "
            "anew, or its log was truncated"
        )
    if kafka.auto_offset_reset is OffsetReset.NONE:
        raise SettingsInvalid(
            f"{reason}, and kafka.auto_offset_reset is none: set it to earliest, or stop the workers and set the "
            f"offset: {_reset_command(kafka, partition)}"
        )
    return reason


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _reset_command(kafka: KafkaSettings, partition: TopicPartition) -> str:
    return (
        f"kafka-consumer-groups.sh --bootstrap-server {kafka.bootstrap_servers} --group {kafka.group_id} "
        f"--topic {partition.topic}:{partition.partition} --reset-offsets --to-earliest --execute"
    )
