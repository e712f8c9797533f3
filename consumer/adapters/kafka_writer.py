"""The results topic and the dead-letter topic: explicit batches, acknowledged one after the other."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    InvalidMessageError,
    InvalidTimestampError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)
from aiokafka.partitioner import murmur2
from aiokafka.producer.message_accumulator import BatchBuilder

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_connection import NotConnected, client_options, follow_credentials, refusals
from consumer.errors import DependencyUnavailable
from consumer.records import Message
from consumer.sections import Compression, KafkaSettings
from schemas.headers import SOURCE_PARTITION

_CLOSE_SECONDS = 5.0
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_REFUSALS = (InvalidMessageError, InvalidTimestampError, *_TOO_LARGE)
"""A broker's answers that concern one batch, not the producer."""


@dataclass(frozen=True, slots=True)
class _Session:
    """One idempotent producer, until it fails. `discarded` wakes the writes of other partitions on it."""

    producer: AIOKafkaProducer
    discarded: asyncio.Future[None]


class BatchProducer:
    """Acknowledged, ordered writes to one topic.

    Idempotence alone does not give order: a batch queued behind a refused one is accepted, and what follows fails with
    OutOfOrderSequence. So at most one batch of a partition is outstanding and none is queued behind it; and after
    any failure, or a cancelled write, the producer is discarded, because its sequence numbers, and what it may still
    send, are unknown. What is sent again may be there twice, never out of order at its first occurrence.

    A partition whose batch was refused for what is in it gets a producer of its own from then on: it may be refused for
    long, and each time the others would lose theirs.
    """

    def __init__(self, kafka: KafkaSettings, topic: str, max_message_bytes: int) -> None:
        self._kafka = kafka
        self._topic = topic
        self._max_message_bytes = max_message_bytes
        self._sessions: dict[int | None, _Session] = {}
        """By partition for those that are apart, by None for all others."""
        self._apart: set[int] = set()
        self._most_records: dict[int, int] = {}
        """Of one batch, where the broker has refused larger ones: the topic's limit was lowered under us.

        It does not grow again: each refusal sends what stood before it twice.
        """
        self._starting = asyncio.Lock()
        self._one_outstanding: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._discarding: set[asyncio.Task[None]] = set()

    async def partitions(self) -> int:
        """Partitions of the topic, as far as the client knows. Raises DependencyUnavailable."""
        async with self._attempt(None) as session:
            return len(await session.producer.partitions_for(self._topic))

    async def write(self, partition: int, messages: Sequence[Message]) -> None:
        """Append in order, in as many batches as the topic's limit asks for; all acknowledged when it returns.

        Raises DependencyUnavailable: some first batches may be there already; ValueError for a message that no batch
        can hold, which the caller should have replaced.
        """
        written = 0
        async with self._one_outstanding[partition]:
            while written < len(messages):
                async with self._attempt(partition) as session:
                    await self._require(session, partition)
                    most = self._most_records.get(partition, len(messages))
                    batch = self._fill(session.producer.create_batch(), messages[written : written + most])
                    await self._taken(session, batch, partition)
                written += batch.record_count()

    async def close(self) -> None:
        """Close with nothing outstanding; bounded, also when the broker is gone."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*map(_close, sessions))
        if self._discarding:
            await asyncio.wait(self._discarding, timeout=_CLOSE_SECONDS)

    @asynccontextmanager
    async def _attempt(self, partition: int | None) -> AsyncIterator[_Session]:
        """Within the delivery deadline; a failure, or a cancelled write, discards the producer."""
        deadline_seconds = self._kafka.delivery_timeout_seconds
        place = partition if partition in self._apart else None
        session = None
        try:
            async with asyncio.timeout(deadline_seconds):
                session = await self._live(place)
                yield session
        except (TimeoutError, KafkaError, asyncio.CancelledError) as error:
            if place is None and partition is not None and isinstance(error, _REFUSALS):
                self._apart.add(partition)
            elif session is not None:
                self._discard(session)
            if isinstance(error, asyncio.CancelledError):
                raise
            reason = f"no answer in {deadline_seconds:g} s" if isinstance(error, TimeoutError) else repr(error)
            raise DependencyUnavailable("kafka", f"{self._topic}: {reason}") from error

    def _fill(self, batch: BatchBuilder, messages: Sequence[Message]) -> BatchBuilder:
        for message in messages:
            headers = list(message.headers)
            appended = batch.append(timestamp=None, key=message.key, value=message.value, headers=headers)
            if appended is None:
                break
            if batch.size() > self._max_message_bytes:
                raise ValueError(
                    f"a batch of one message has {batch.size()} bytes, {self._topic} takes {self._max_message_bytes}: "
                    "a smaller answer must have replaced it before it got here. This is a bug."
                )
        batch.close()
        return batch

    async def _require(self, session: _Session, partition: int) -> None:
        """Raises DependencyUnavailable when the topic lacks the partition: the client's own way is an assertion."""
        # For each chunk: without a set of all partitions.
        if session.producer.client.cluster.leader_for_partition(TopicPartition(self._topic, partition)) is not None:
            return
        known = await session.producer.partitions_for(self._topic)
        if partition not in known:
            await session.producer.client.force_metadata_update()
            known = await session.producer.partitions_for(self._topic)
        if partition not in known:
            raise DependencyUnavailable(
                "kafka", f"{self._topic} has {len(known)} partitions, {partition} is not among them: add partitions"
            )

    async def _taken(self, session: _Session, batch: BatchBuilder, partition: int) -> None:
        count = batch.record_count()
        try:
            await self._acknowledged(session, batch, partition)
        except _TOO_LARGE:
            self._most_records[partition] = max(1, count // 2)
            raise

    async def _acknowledged(self, session: _Session, batch: BatchBuilder, partition: int) -> None:
        delivery = await session.producer.send_batch(batch, self._topic, partition=partition)
        try:
            await asyncio.wait([delivery, session.discarded], return_when=asyncio.FIRST_COMPLETED)
            if not delivery.done():
                raise DependencyUnavailable("kafka", f"{self._topic}: the producer failed for another partition")
            delivery.result()
        finally:
            # Nobody will ask for the outcome of a write that is given up.
            delivery.cancel()

    async def _live(self, place: int | None) -> _Session:
        async with self._starting:
            if place not in self._sessions:
                producer = _producer(self._kafka, self._max_message_bytes)
                session = _Session(producer, asyncio.get_running_loop().create_future())
                try:
                    await producer.start()
                    follow_credentials(self._kafka, producer)
                except KafkaConnectionError as error:
                    self._discard(session)
                    if not (refused := await refusals(self._kafka)):
                        raise
                    reason = NotConnected(refused)
                    raise DependencyUnavailable("kafka", f"{self._topic}: {reason.why}", reason.hindrance) from error
                except BaseException:
                    self._discard(session)
                    raise
                self._sessions[place] = session
            return self._sessions[place]

    def _discard(self, session: _Session) -> None:
        if session.discarded.done():
            return
        session.discarded.set_result(None)
        self._sessions = {place: one for place, one in self._sessions.items() if one is not session}
        ending = asyncio.create_task(kafka_internals.abandon_producer(session.producer))
        self._discarding.add(ending)
        ending.add_done_callback(self._discarding.discard)


async def _close(session: _Session) -> None:
    session.discarded.set_result(None)
    stopping = asyncio.create_task(session.producer.stop())
    await asyncio.wait([stopping], timeout=_CLOSE_SECONDS)
    if not stopping.done():
        stopping.cancel()
        await kafka_internals.abandon_producer(session.producer)


class KafkaResultWriter:
    """A `ResultWriter` on the results topic. `max_message_bytes`: the topic's max.message.bytes."""

    def __init__(self, kafka: KafkaSettings, max_message_bytes: int) -> None:
        self._producer = BatchProducer(kafka, kafka.result_topic, max_message_bytes)

    async def write(self, partition: int, messages: Sequence[Message]) -> None:
        """See `BatchProducer.write`."""
        await self._producer.write(partition, messages)

    async def close(self) -> None:
        """See `BatchProducer.close`."""
        await self._producer.close()


class KafkaDeadLetterWriter:
    """A `DeadLetterWriter` on the dead-letter topic, with a producer of its own: its faults hold up no result.

    A dead letter goes to the partition of its source when there is one of that number, else by the hash of its key, as
    Kafka's own clients do it, and without a key to the source's number modulo the count.
    """

    def __init__(self, kafka: KafkaSettings, max_message_bytes: int) -> None:
        self._producer = BatchProducer(kafka, kafka.dead_letter_topic, max_message_bytes)

    async def write(self, messages: Sequence[Message]) -> None:
        """All acknowledged, in order within a partition. Raises DependencyUnavailable, ValueError."""
        count = await self._producer.partitions()
        by_partition: defaultdict[int, list[Message]] = defaultdict(list)
        for message in messages:
            by_partition[_dead_letter_partition(message, count)].append(message)
        for partition, group in by_partition.items():
            await self._producer.write(partition, group)

    async def close(self) -> None:
        """See `BatchProducer.close`."""
        await self._producer.close()


def _dead_letter_partition(message: Message, count: int) -> int:
    # The last one is ours: a request may bring headers of this name, and they are kept.
    source = next(int(value) for name, value in reversed(message.headers) if name == SOURCE_PARTITION and value)
    if source < count:
        return source
    if message.key is None:
        return source % count
    return int(murmur2(message.key) & 0x7FFFFFFF) % count


def _producer(kafka: KafkaSettings, max_message_bytes: int) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        **client_options(kafka),
        client_id="scorestream",
        acks="all",
        enable_idempotence=True,
        compression_type=None if kafka.compression is Compression.NONE else kafka.compression.value,
        max_batch_size=max_message_bytes,
        request_timeout_ms=round(kafka.request_timeout_seconds * 1000),
    )
