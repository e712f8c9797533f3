"""Topics and a consumer group in memory. They pass the same contract suite as Apache Kafka: tests/contract."""

from __future__ import annotations

import asyncio
import time
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from consumer.errors import DependencyUnavailable, PartitionLost
from consumer.interfaces import Receive
from consumer.records import Fetched, Message, SourceRecord, TopicPartition
from schemas.headers import SOURCE_PARTITION

Listener = Callable[[frozenset[TopicPartition]], Awaitable[None]]
MESSAGE_OVERHEAD_BYTES = 100


class InMemoryTopic:
    """Records by partition. `records[p]` is what a reader of partition p finds, in order."""

    def __init__(self, name: str, partitions: int, max_message_bytes: int = 1_048_588) -> None:
        self.name = name
        self.max_message_bytes = max_message_bytes
        self.records: list[list[SourceRecord]] = [[] for _ in range(partitions)]
        self.next_offsets = [0] * partitions
        self.grown = asyncio.Event()

    def append(self, partition: int, message: Message, timestamp_ms: int | None = None) -> int:
        """Returns the offset."""
        offset = self.next_offsets[partition]
        timestamp_ms = round(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        self.records[partition].append(
            SourceRecord(self.name, partition, offset, timestamp_ms, message.key, message.value, message.headers)
        )
        self.skip(partition)
        return offset

    def skip(self, partition: int, offsets: int = 1) -> None:
        """Offsets without a record: transaction markers, aborted or compacted records."""
        self.next_offsets[partition] += offsets
        self.grown.set()

    def read(self, partition: int, position: int, limit: int) -> tuple[list[SourceRecord], int]:
        """At most `limit` records from `position` on, and the position after them."""
        records = self.records[partition]
        first = bisect_left(records, position, key=lambda record: record.offset)
        found = records[first : first + limit]
        at_the_end = first + limit >= len(records)
        return found, self.next_offsets[partition] if at_the_end else found[-1].offset + 1


class InMemoryGroup:
    """A consumer group of one topic with eager rebalances: everybody gives up everything, then it is dealt again.

    Clear `commits_open` to hold commits until their deadline.
    """

    def __init__(self, topic: InMemoryTopic, operation_timeout_seconds: float = 1.0) -> None:
        self.topic = topic
        self.operation_timeout_seconds = operation_timeout_seconds
        self.committed: dict[TopicPartition, int] = {}
        self.notes: dict[TopicPartition, str] = {}
        self.members: list[InMemorySource] = []
        self.commits_open = asyncio.Event()
        self.commits_open.set()
        self._one_rebalance = asyncio.Lock()

    async def rebalance(self) -> None:
        """Revoke from every member, then assign round robin."""
        async with self._one_rebalance:
            await asyncio.gather(*(member.revoke() for member in self.members))
            dealt: defaultdict[InMemorySource, list[TopicPartition]] = defaultdict(list)
            for partition in range(len(self.topic.records)):
                if self.members:
                    owner = self.members[partition % len(self.members)]
                    dealt[owner].append(TopicPartition(self.topic.name, partition))
            await asyncio.gather(*(member.assign(frozenset(dealt[member])) for member in self.members))

    async def expel(self, member: InMemorySource) -> None:
        """What a session timeout does: its partitions go to the others, and the member does not know yet."""
        self.members.remove(member)
        await self.rebalance()

    async def readmit(self, member: InMemorySource) -> None:
        """The expelled member finds out, gives up what it held, and joins again."""
        await member.revoke()
        self.members.append(member)
        await self.rebalance()


class InMemorySource:
    """A `RecordSource`: one member of an InMemoryGroup."""

    skipped_records = 0

    def __init__(self, group: InMemoryGroup) -> None:
        self._group = group
        self._held: frozenset[TopicPartition] = frozenset()
        """What may be committed: until `revoked` has returned, when nothing may be read any more."""
        self._positions: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, int] = {}
        self._listener_failure: Exception | None = None

    async def join(self, assigned: Listener, revoked: Listener) -> None:
        self._assigned, self._revoked = assigned, revoked
        self._group.members.append(self)
        await self._group.rebalance()

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def counted_in(self) -> bool:
        return self in self._group.members

    def last_fetch(self, partition: TopicPartition) -> Fetched | None:
        if partition not in self._told:
            return None
        end = self._group.topic.next_offsets[partition.partition]
        return Fetched(round(time.time() * 1000), end, end)

    async def fetch(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        if self._listener_failure is not None:
            raise self._listener_failure
        topic = self._group.topic
        topic.grown.clear()
        count = self._take(room, receive)
        if count == 0:
            try:
                async with asyncio.timeout(wait_seconds):
                    await topic.grown.wait()
            except TimeoutError:
                return 0
            count = self._take(room, receive)
        return count

    async def committed(self, partition: TopicPartition) -> int | None:
        return self._group.committed.get(partition)

    async def notes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        return {partition: self._group.notes[partition] for partition in partitions if partition in self._group.notes}

    async def commit(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str] | None = None
    ) -> None:
        try:
            async with asyncio.timeout(self._group.operation_timeout_seconds):
                await self._group.commits_open.wait()
        except TimeoutError as error:
            raise DependencyUnavailable("kafka", "commit: no answer") from error
        if self not in self._group.members or not self._held >= offsets.keys():
            raise PartitionLost("commit refused")
        self._group.committed.update(offsets)
        self._group.notes.update(dict.fromkeys(offsets, "") | dict(notes or {}))

    async def leave(self) -> None:
        self._positions, self._held = {}, frozenset()
        self._group.topic.grown.set()
        if self in self._group.members:
            self._group.members.remove(self)
            await self._group.rebalance()

    async def revoke(self) -> None:
        """Caller: InMemoryGroup."""
        self._positions = {}
        await self._tell(self._revoked, self._held)
        self._held = frozenset()

    async def assign(self, partitions: frozenset[TopicPartition]) -> None:
        """Caller: InMemoryGroup."""
        self._held = partitions
        self._positions = {partition: self._group.committed.get(partition, 0) for partition in partitions}
        self._told = {}
        await self._tell(self._assigned, partitions)

    async def _tell(self, listener: Listener, partitions: frozenset[TopicPartition]) -> None:
        try:
            if partitions:
                await listener(partitions)
        except Exception as failure:  # noqa: BLE001  # raised by fetch
            self._listener_failure = failure

    def _take(self, room: Mapping[TopicPartition, int], receive: Receive) -> int:
        count = 0
        for partition, limit in room.items():
            if partition not in self._positions or not limit:
                continue
            records, position = self._group.topic.read(partition.partition, self._positions[partition], limit)
            self._positions[partition] = position
            if position != self._told.get(partition):
                self._told[partition] = position
                receive(partition, records, position)
                count += len(records)
        return count


class InMemoryWriter:
    """A `ResultWriter`. Faults: `refuse_next` writes, `lose_next` acknowledgements, hold all by clearing `open`."""

    def __init__(self, topic: InMemoryTopic) -> None:
        self.topic = topic
        self.refuse_next = 0
        self.lose_next = 0
        self.open = asyncio.Event()
        self.open.set()

    async def write(self, partition: int, messages: Sequence[Message]) -> None:
        await self.open.wait()
        if self.refuse_next:
            self.refuse_next -= 1
            raise DependencyUnavailable("kafka", "refused")
        if partition >= len(self.topic.records):
            raise DependencyUnavailable("kafka", f"no partition {partition}")
        for message in messages:
            if _size_bytes(message) > self.topic.max_message_bytes:
                raise ValueError("larger than the topic takes. This is a bug.")
            self.topic.append(partition, message)
        if self.lose_next:
            self.lose_next -= 1
            raise DependencyUnavailable("kafka", "the acknowledgement was lost")


class InMemoryDeadLetterWriter:
    """A `DeadLetterWriter`: the source's partition number when it exists, else by key. Faults are the writer's."""

    def __init__(self, topic: InMemoryTopic) -> None:
        self.writer = InMemoryWriter(topic)

    async def write(self, messages: Sequence[Message]) -> None:
        count = len(self.writer.topic.records)
        for message in messages:
            source = int(dict(message.headers)[SOURCE_PARTITION] or b"")
            partition = source if source < count else zlib.crc32(message.key or b"") % count
            await self.writer.write(partition, [message])


def _size_bytes(message: Message) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in message.headers)
    return len(message.key or b"") + len(message.value or b"") + headers + MESSAGE_OVERHEAD_BYTES
