"""One way to speak to the fake and to the real brokers, so that one suite can be run over both."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.structs import ConsumerRecord

from consumer.adapters.kafka_source import KafkaSource
from consumer.adapters.kafka_writer import KafkaDeadLetterWriter, KafkaResultWriter
from consumer.interfaces import DeadLetterWriter, RecordSource, ResultWriter
from consumer.records import Message, SourceRecord, TopicPartition
from consumer.sections import KafkaSettings
from producer_tools.reading.fetches import MAX_UNPACKED_BYTES
from tests.fakes.in_memory_kafka import (
    InMemoryDeadLetterWriter,
    InMemoryGroup,
    InMemorySource,
    InMemoryTopic,
    InMemoryWriter,
)
from tests.services.kafka import create_topics

MAX_MESSAGE_BYTES = 50_000
OPERATION_SECONDS = 5.0


class Cluster(Protocol):
    """A topic with a group on it."""

    topic: str

    async def publish(self, partition: int, values: Sequence[bytes]) -> None:
        """Append records."""

    async def publish_aborted(self, partition: int) -> None:
        """Leave offsets without a record that anybody may read."""

    async def records(self, partition: int) -> list[SourceRecord]:
        """What a reader finds."""

    def source(self) -> RecordSource:
        """A new member of the group."""

    def results(self) -> ResultWriter:
        """A writer to the topic."""

    def dead_letters(self) -> DeadLetterWriter:
        """A writer to the topic."""

    async def close(self) -> None:
        """Everything this made."""


class InMemoryCluster:
    def __init__(self, partitions: int) -> None:
        self._topic = InMemoryTopic("topic", partitions, MAX_MESSAGE_BYTES)
        self._group = InMemoryGroup(self._topic)
        self.topic = self._topic.name
        self._sources: list[InMemorySource] = []

    async def publish(self, partition: int, values: Sequence[bytes]) -> None:
        for value in values:
            self._topic.append(partition, Message(None, value, ()))

    async def publish_aborted(self, partition: int) -> None:
        self._topic.skip(partition, 2)

    async def records(self, partition: int) -> list[SourceRecord]:
        return list(self._topic.records[partition])

    def source(self) -> RecordSource:
        self._sources.append(InMemorySource(self._group))
        return self._sources[-1]

    def results(self) -> ResultWriter:
        return InMemoryWriter(self._topic)

    def dead_letters(self) -> DeadLetterWriter:
        return InMemoryDeadLetterWriter(self._topic)

    async def close(self) -> None:
        for source in self._sources:
            await source.leave()


class BrokerCluster:
    """A new topic and group on a broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.topic = f"contract.{uuid.uuid4().hex}"
        self.kafka = KafkaSettings(
            bootstrap_servers=bootstrap_servers,
            request_topic=self.topic,
            result_topic=self.topic,
            dead_letter_topic=self.topic,
            group_id=self.topic,
            session_timeout_seconds=6,
            heartbeat_interval_seconds=0.1,
            delivery_timeout_seconds=OPERATION_SECONDS,
        )
        self._sources: list[KafkaSource] = []
        self._writers: list[KafkaResultWriter | KafkaDeadLetterWriter] = []

    async def create(self, partitions: int) -> None:
        configs = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
        await create_topics(self.kafka.bootstrap_servers, {self.topic: partitions}, configs)

    async def publish(self, partition: int, values: Sequence[bytes]) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers) as producer:
            for value in values:
                await producer.send(self.topic, value, partition=partition)

    async def publish_aborted(self, partition: int) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers, transactional_id=self.topic)
        async with producer:
            await producer.begin_transaction()
            await (await producer.send(self.topic, b"aborted", partition=partition))
            await producer.abort_transaction()

    async def records(self, partition: int) -> list[SourceRecord]:
        reader = AIOKafkaConsumer(
            bootstrap_servers=self.kafka.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        place = ClientPartition(self.topic, partition)
        found: list[SourceRecord] = []
        async with reader:
            reader.assign([place])
            end = (await reader.end_offsets([place]))[place]
            while await reader.position(place) < end:
                answer = await reader.getmany(place, timeout_ms=500)
                found.extend(_source_record(record) for record in answer.get(place, ()))
        return found

    def source(self, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> KafkaSource:
        self._sources.append(KafkaSource(self.kafka, OPERATION_SECONDS, max_unpacked_bytes))
        return self._sources[-1]

    def results(self) -> KafkaResultWriter:
        self._writers.append(writer := KafkaResultWriter(self.kafka, MAX_MESSAGE_BYTES))
        return writer

    def dead_letters(self) -> KafkaDeadLetterWriter:
        self._writers.append(writer := KafkaDeadLetterWriter(self.kafka, MAX_MESSAGE_BYTES))
        return writer

    async def close(self) -> None:
        for source in self._sources:
            await source.leave()
        for writer in self._writers:
            await writer.close()


def _source_record(record: ConsumerRecord) -> SourceRecord:
    key, value, headers = record.key, record.value, record.headers
    return SourceRecord(record.topic, record.partition, record.offset, record.timestamp, key, value, headers)


class Receiver:
    """What the path does with a source's calls: lanes that open, receive and close."""

    def __init__(self) -> None:
        self.open: set[TopicPartition] = set()
        self.values: dict[TopicPartition, list[bytes | None]] = {}
        self.records: list[SourceRecord] = []
        self.next_offsets: dict[TopicPartition, int] = {}
        self.assignments = 0
        self.revocations = 0
        self.revoke_seconds = 0.0
        self.out_of_turn: list[TopicPartition] = []

    async def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.assignments += 1
        self.open |= partitions

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.revocations += 1
        self.open -= partitions
        await asyncio.sleep(self.revoke_seconds)

    def receive(self, partition: TopicPartition, records: Sequence[SourceRecord], next_offset: int) -> None:
        if partition not in self.open:
            self.out_of_turn.append(partition)
        self.values.setdefault(partition, []).extend(record.value for record in records)
        self.records.extend(records)
        self.next_offsets[partition] = next_offset
