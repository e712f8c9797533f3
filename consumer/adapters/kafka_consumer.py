"""How the consuming client is set up, and what its records are to us."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from consumer.adapters.kafka_connection import client_options
from consumer.records import SourceRecord
from consumer.sections import KafkaSettings
from consumer.startup import CLIENT_ID
from producer_tools.reading.records import Record

_NEVER_MS = 2**31 - 1
_METADATA_MAX_AGE_MS = 10_000
"""How soon partitions that were added are noticed; the client's own five minutes are a long time to leave them."""


def new_consumer(kafka: KafkaSettings) -> AIOKafkaConsumer:
    """Not started. No deserialisers, no automatic commits."""

    class OwnAssignor(StickyPartitionAssignor):  # type: ignore[misc]  # aiokafka is untyped
        """aiokafka keeps a member's previous partitions on the class: members of one process would share them."""

    return AIOKafkaConsumer(
        **client_options(kafka),
        client_id=CLIENT_ID,
        group_id=kafka.group_id,
        group_instance_id=kafka.group_instance_id,
        enable_auto_commit=False,
        # What to do without an offset is decided in kafka_positions.py, where what is skipped can be counted.
        auto_offset_reset="none",
        isolation_level="read_committed",
        partition_assignment_strategy=(OwnAssignor,),
        session_timeout_ms=round(kafka.session_timeout_seconds * 1000),
        heartbeat_interval_ms=round(kafka.heartbeat_interval_seconds * 1000),
        rebalance_timeout_ms=round(kafka.rebalance_timeout_seconds * 1000),
        request_timeout_ms=round(kafka.request_timeout_seconds * 1000),
        # Whether the worker makes progress is the watchdog's question: a long outage must not cost the membership.
        max_poll_interval_ms=_NEVER_MS,
        metadata_max_age_ms=_METADATA_MAX_AGE_MS,
        fetch_max_wait_ms=kafka.fetch_max_wait_ms,
        max_partition_fetch_bytes=kafka.max_partition_fetch_bytes,
    )


def source_record(partition: ClientPartition, record: Any) -> SourceRecord:
    """What the reader receives of one record. `record`: the client's own, or a Record where that had not read it."""
    if isinstance(record, Record):
        return SourceRecord(partition.topic, partition.partition, *record)
    # A message of format 0 has no timestamp.
    timestamp_ms = 0 if record.timestamp is None else record.timestamp
    key, value, headers = record.key, record.value, tuple(record.headers)
    return SourceRecord(partition.topic, partition.partition, record.offset, timestamp_ms, key, value, headers)
