"""Kafka as the tools see it: whole ranges of topics to read, acknowledged records to write. No consumer group."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaConnectionError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.producer.message_accumulator import BatchBuilder

from producer_tools.connections.files import Unusable
from producer_tools.connections.kafka import Brokers
from producer_tools.connections.refusal import Refusal, why_advertised_refused, why_all_refused
from producer_tools.console import ToolFailure
from producer_tools.reading.fetches import Bounds, read_within

Headers = Sequence[tuple[str, bytes | None]]

STALL_SECONDS = 15.0
"""Nothing read from a range for so long means that its end cannot be reached."""
ACKNOWLEDGE_SECONDS = 30.0
"""An idempotent aiokafka producer retries for ever; after this long the broker did not take the record."""
UNACKNOWLEDGED_RECORDS = 5000
"""Records sent and not yet acknowledged: bounds memory, keeps the batches full."""
UNACKNOWLEDGED_BATCHES = 200
"""The same for records that are sent together."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets `start` <= offset < `end` of one partition."""

    start: int
    end: int


async def create_topics(bootstrap_servers: str, topics: Sequence[str], *, partitions: int) -> None:
    """Create topics without replicas, for a broker of one's own. Raises KafkaError, ToolFailure."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    finally:
        await admin.close()
    refused = {topic: for_code(code).__name__ for topic, code, *_ in answer.topic_errors if code}
    if refused:
        raise ToolFailure(f"topics could not be created: {refused}")


@asynccontextmanager
async def open_reader(brokers: Brokers) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer outside any group that sees committed records only. Raises ToolFailure when no broker answers."""
    reader = AIOKafkaConsumer(
        **_options(brokers),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        fetch_max_wait_ms=20,  # a long poll for idle partitions holds up the busy ones of the same broker
    )
    try:
        await reader.start()
    except KafkaConnectionError as unreachable:
        await reader.stop()
        raise await _not_connected(brokers, unreachable) from None
    read_within(reader, Bounds())
    try:
        await _require_brokers(brokers)
        yield reader
    finally:
        await reader.stop()


async def partitions_of(reader: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
    """The partitions of `topic`, in order. Raises ToolFailure when there is no such topic.

    Asks for all topics, because asking a broker for one by name may create it. The public `topics()` asks the same and
    gives the names alone.
    """
    cluster = await reader._client.fetch_all_metadata()  # noqa: SLF001 - see above
    partitions = cluster.partitions_for_topic(topic)
    if not partitions:
        raise ToolFailure(f"there is no topic {topic}; kcat -L lists those that exist")
    return [TopicPartition(topic, number) for number in sorted(partitions)]


async def spans_of(reader: AIOKafkaConsumer, topic: str) -> dict[TopicPartition, Span]:
    """What each partition of `topic` holds now, up to the last stable offset."""
    partitions = await partitions_of(reader, topic)
    starts = await reader.beginning_offsets(partitions)
    ends = await reader.end_offsets(partitions)
    return {partition: Span(starts[partition], ends[partition]) for partition in partitions}


async def waiting_records(brokers: Brokers, topic: str, group_id: str) -> int:
    """What is on `topic` and not committed by the group. Raises ToolFailure, KafkaError."""
    async with open_reader(brokers) as reader:
        spans = await spans_of(reader, topic)
    admin = AIOKafkaAdminClient(**_options(brokers))
    await admin.start()
    try:
        committed = await _committed(admin, group_id, list(spans))
    finally:
        await admin.close()
    # Without a commit the offset is -1, or there is none.
    return sum(max(0, span.end - max(span.start, committed.get(one, span.start))) for one, span in spans.items())


async def _committed(
    admin: AIOKafkaAdminClient, group_id: str, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    asked = time.monotonic()
    while True:
        try:
            committed = await admin.list_consumer_group_offsets(group_id, partitions=partitions)
            return {one: int(offset.offset) for one, offset in committed.items()}
        except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError):
            # A broker that has just started, or is asked for its first group, needs a moment.
            if time.monotonic() - asked > STALL_SECONDS:
                raise
            await asyncio.sleep(0.2)


async def read_spans(
    reader: AIOKafkaConsumer, spans: Mapping[TopicPartition, Span]
) -> AsyncIterator[list[ConsumerRecord]]:
    """Every record of the spans, each partition in its order, in lists of one partition each.

    Raises ToolFailure when the end of a span cannot be reached.
    """
    open_spans = {partition: span for partition, span in spans.items() if span.start < span.end}
    reader.assign(list(open_spans))
    for partition, span in open_spans.items():
        reader.seek(partition, span.start)
    progress = time.monotonic()
    while open_spans:
        fetched = await reader.getmany(*open_spans, timeout_ms=500)
        for partition, records in fetched.items():
            progress = time.monotonic()
            end = open_spans[partition].end
            yield [record for record in records if record.offset < end]
        # The position, not the last record: a transaction's marker or a compacted record may stand at the end.
        for partition in list(open_spans):
            if await reader.position(partition) >= open_spans[partition].end:
                del open_spans[partition]
        if time.monotonic() - progress > STALL_SECONDS:
            where = ", ".join(f"{one.topic}/{one.partition} before {span.end}" for one, span in open_spans.items())
            raise ToolFailure(f"nothing more can be read for {STALL_SECONDS:g} s from {where}")


async def follow(
    reader: AIOKafkaConsumer, starts: Mapping[TopicPartition, int], *, idle_seconds: float = 0.0
) -> AsyncIterator[list[ConsumerRecord]]:
    """Records from `starts` on, for ever; an empty list at least every 200 ms, so that the caller can look up.

    `idle_seconds`: after nothing has come, ask nothing for so long. For brokers that answer an empty fetch at once
    instead of waiting for records, which would keep a processor busy with asking.
    """
    reader.assign(list(starts))
    for partition, offset in starts.items():
        reader.seek(partition, offset)
    while True:
        fetched = await reader.getmany(timeout_ms=2 if idle_seconds else 200)
        if not fetched:
            if idle_seconds:
                reader.pause(*starts)
                await asyncio.sleep(idle_seconds)
                reader.resume(*starts)
            yield []
        for records in fetched.values():
            yield records


class Publisher:
    """An idempotent producer that counts a record as published when the brokers have acknowledged it.

    `acknowledged` is called with the name given to `send`, as soon as that is so.
    """

    def __init__(self, producer: AIOKafkaProducer, acknowledged: Callable[[str], None]) -> None:
        self._producer = producer
        self._acknowledged = acknowledged
        self._waiting: deque[asyncio.Future[object]] = deque()
        self.acknowledged_records = 0

    async def partition_count(self, topic: str) -> int:
        """Partitions of `topic`. Raises ToolFailure when there is no such topic."""
        cluster = await self._producer.client.fetch_all_metadata()
        if topic not in cluster.topics():
            raise ToolFailure(f"there is no topic {topic}; kcat -L lists those that exist")
        return len(await self._producer.partitions_for(topic))

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        name: str = "",
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Hand over one record; waits only while too many are unacknowledged. Raises ToolFailure, KafkaError."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= UNACKNOWLEDGED_RECORDS):
            await self._wait_for_oldest()
        sent = await self._producer.send(topic, value=value, key=key, headers=list(headers), partition=partition)
        sent.add_done_callback(functools.partial(self._note, name))
        self._waiting.append(sent)

    async def send_together(self, topic: str, values: Sequence[bytes], *, partition: int) -> None:
        """Hand over records without key and headers; costs a fraction of as many `send`. Raises as `send`."""
        batch = self._producer.create_batch()
        for value in values:
            if batch.append(key=None, value=value, timestamp=None) is None:
                await self._send_batch(topic, batch, partition)
                batch = self._producer.create_batch()
                if batch.append(key=None, value=value, timestamp=None) is None:
                    raise ToolFailure(f"a request of {len(value)} bytes is larger than one batch may be")
        await self._send_batch(topic, batch, partition)

    async def _send_batch(self, topic: str, batch: BatchBuilder, partition: int) -> None:
        while len(self._waiting) >= UNACKNOWLEDGED_BATCHES or (self._waiting and self._waiting[0].done()):
            await self._wait_for_oldest()
        records = batch.record_count()
        batch.close()
        sent = await self._producer.send_batch(batch, topic, partition=partition)
        sent.add_done_callback(functools.partial(self._note_batch, records))
        self._waiting.append(sent)

    def _note_batch(self, records: int, sent: asyncio.Future[object]) -> None:
        if not sent.cancelled() and sent.exception() is None:
            self.acknowledged_records += records

    async def flush(self) -> None:
        """Wait until everything sent is acknowledged. Raises ToolFailure, KafkaError."""
        while self._waiting:
            await self._wait_for_oldest()
        # What is acknowledged is counted by callbacks, and waiting for a future that is done lets none of them run.
        await asyncio.sleep(0)

    def _note(self, name: str, sent: asyncio.Future[object]) -> None:
        if not sent.cancelled() and sent.exception() is None:
            self.acknowledged_records += 1
            self._acknowledged(name)

    async def _wait_for_oldest(self) -> None:
        try:
            async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
                await asyncio.shield(self._waiting[0])
        except TimeoutError:
            raise ToolFailure(
                f"the brokers did not acknowledge a record within {ACKNOWLEDGE_SECONDS:g} s; "
                f"{self.acknowledged_records} records are published"
            ) from None
        self._waiting.popleft()


@asynccontextmanager
async def open_publisher(
    brokers: Brokers, acknowledged: Callable[[str], None] = lambda _name: None
) -> AsyncIterator[Publisher]:
    """A Publisher whose `flush` the caller awaits. Raises ToolFailure when no broker answers."""
    options = _options(brokers)
    # Before the start, which waits for a broker that it was sent on to.
    await _require_brokers(brokers)
    producer = AIOKafkaProducer(**options, enable_idempotence=True, linger_ms=5)
    try:
        await producer.start()
    except KafkaConnectionError as unreachable:
        await producer.stop()
        raise await _not_connected(brokers, unreachable) from None
    try:
        yield Publisher(producer, acknowledged)
    finally:
        # stop() flushes, for ever when the brokers are gone.
        stopping = asyncio.ensure_future(producer.stop())
        await asyncio.wait({stopping}, timeout=5)


def _options(brokers: Brokers) -> dict[str, Any]:
    try:
        return brokers.client_options
    except Unusable as unusable:
        raise ToolFailure(f"kafka.security: {unusable}") from unusable


async def _require_brokers(brokers: Brokers) -> None:
    """Raises ToolFailure where no address that the brokers advertise lets us in: clients try them for ever."""
    refused = await why_advertised_refused(brokers)
    if refused and all(refused):
        raise _not_let_in([one for one in refused if one is not None])


async def _not_connected(brokers: Brokers, error: KafkaConnectionError) -> ToolFailure:
    """What each address does, and the fix: the client says neither."""
    return _not_let_in(await why_all_refused(brokers), str(error))


def _not_let_in(refused: Sequence[Refusal], otherwise: str = "") -> ToolFailure:
    told = "; ".join(f"{one.found}: {one.fix}" for one in refused) or otherwise
    return ToolFailure(f"no Kafka broker lets this tool in: {told}")
