"""Records and positions out of the client, per partition, and what to do where the client cannot go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_positions import starts_at_end, what_was_lost
from consumer.interfaces import Receive
from consumer.records import SourceRecord, TopicPartition
from consumer.sections import KafkaSettings
from producer_tools.reading.fetches import DamagedBatch

log = structlog.get_logger()


class UndecodableRecord(Exception):
    """A record's checksum is wrong: what the broker holds is not what was written. Going past it is the operator's."""

    def __init__(self, partition: TopicPartition, position: int | None, group: str, cause: Exception) -> None:
        topic, number = partition
        after = "the next offset" if position is None else position + 1
        super().__init__(
            f"{topic}-{number}: the record at offset {position} cannot be decoded ({cause}); to go past it stop the "
            f"workers and run: kafka-consumer-groups.sh --group {group} --topic {topic}:{number} --reset-offsets "
            f"--to-offset {after} --execute"
        )


class KafkaReader:
    """Reads the partitions of the live assignment; its owner, the source, says when one begins and ends.

    What `receive` may rely on, and why it holds:

    - Never an old record after `revoked` began. aiokafka sets its reassignment flag and calls the listener in one
      step, without an await between. A getmany() in flight looks at that flag, and at whether its buffer belongs to the
      live assignment, in the step in which it takes records out; and from there to `receive` nothing here awaits.
    - Never a record before `assigned` was entered. A new assignment has no positions, hence no fetch, until the task
      that looks them up runs; aiokafka creates that task and calls the listener in one step.
    - The next position belongs to exactly these records: it is read in the same step. The first one is told when the
      log has turned out to have it: it may only grow from then on.
    - A position that is set here is set for the assignment for which it was looked up, and told in the same step.

    Records of aborted transactions are not requests: isolation is read_committed.
    """

    def __init__(self, kafka: KafkaSettings, consumer: AIOKafkaConsumer, operation_timeout_seconds: float) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        """The partitions of the live assignment."""
        self.skipped_records: Counter[TopicPartition] = Counter()
        """What retention removed before it was read, in offsets."""
        self._kafka = kafka
        self._consumer = consumer
        self._timeout_seconds = operation_timeout_seconds
        self._positions: dict[TopicPartition, int] = {}
        self._claims: dict[TopicPartition, int] = {}
        """Where this worker began without an offset of the group, or how far it has answered since."""

    def begin(self, partitions: frozenset[TopicPartition]) -> None:
        """A new assignment; none of an earlier one's positions holds."""
        self.owned = partitions
        self._positions.clear()

    def end(self) -> None:
        """The assignment is over: nothing is received from here on."""
        self.owned = frozenset()
        self._positions.clear()

    def answered(self, offsets: Mapping[TopicPartition, int]) -> None:
        """All below is answered, whether or not the group takes the commit."""
        for partition, offset in offsets.items():
            if partition in self._claims:
                self._claims[partition] = max(offset, self._claims[partition])

    async def read(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        """One round over the partitions with room, two if it has to wait; returns how many records came.

        Never cancel it lightly. Raises SettingsInvalid when there is no offset to go on from and none may be chosen,
        UndecodableRecord, TimeoutError when a position could not be looked up, and the client's errors.
        """
        if count := await self._round(room, receive):
            return count
        wanted = [partition for partition in room if partition in self.owned]
        if not any(kafka_internals.has_prefetched(self._consumer, partition) for partition in wanted):
            # Without taking anything: several partitions at once would bring more than there is room for.
            await kafka_internals.until_prefetched(self._consumer, wait_seconds)
        else:
            # A record is being passed over, step by step: nothing is waited for, and other tasks have their turn first.
            await asyncio.sleep(0)
        return await self._round(room, receive)

    async def _round(self, room: Mapping[TopicPartition, int], receive: Receive) -> int:
        """Ask one partition after the other, and those without news not at all."""
        count = 0
        for partition, limit in room.items():
            if limit and partition in self.owned and self._has_news(partition):
                came = await self._ask([partition], limit, 0, receive)
                count += came
                if came:
                    await asyncio.sleep(0)
        return count

    def _has_news(self, partition: TopicPartition) -> bool:
        """Records, an error, or a first position; to ask without them costs as much."""
        return partition not in self._positions or kafka_internals.has_prefetched(self._consumer, partition)

    async def _ask(self, partitions: list[TopicPartition], limit: int, wait_seconds: float, receive: Receive) -> int:
        try:
            answer = await self._consumer.getmany(
                *(ClientPartition(*partition) for partition in partitions),
                timeout_ms=round(wait_seconds * 1000),
                max_records=limit,
            )
        except NoOffsetForPartitionError as error:
            await self._begin_somewhere(TopicPartition(*error.args[0]), receive)
            return 0
        except OffsetOutOfRangeError as error:
            [(partition, wanted)] = error.args[0].items()
            await self._go_on_after_loss(TopicPartition(*partition), wanted, receive)
            return 0
        except DamagedBatch as damage:
            place = TopicPartition(*damage.partition)
            position = kafka_internals.position(self._consumer, place)
            raise UndecodableRecord(place, position, self._kafka.group_id, damage) from damage
        return sum(self._hand_over(partition, answer.get(partition, ()), receive) for partition in partitions)

    async def _begin_somewhere(self, partition: TopicPartition, receive: Receive) -> None:
        """The group has no offset. Asked once more: the client's error may be an earlier assignment's.

        A worker that had this partition before, and could not commit, goes on where it was; what retention has removed
        of that is lost. What was gone before any worker of the group began is nobody's loss.
        """
        owned, place = self.owned, ClientPartition(*partition)
        at_end, claim = starts_at_end(self._kafka, partition), self._claims.get(partition)
        async with asyncio.timeout(self._timeout_seconds):
            if await self._consumer.committed(place) is not None:
                return
            look_up = self._consumer.end_offsets if at_end and claim is None else self._consumer.beginning_offsets
            offset = (await look_up([place]))[place]
        if self.owned is not owned or partition not in owned:
            return
        if kafka_internals.position(self._consumer, partition) is not None:
            return
        if claim is not None:
            if claim < offset:
                self._skip(partition, what_was_lost(self._kafka, partition, claim, offset), claim, offset)
            offset = max(claim, offset)
        log.info("begins without an offset of the group", partition=partition.partition, offset=offset)
        self._claims[partition] = offset
        self._go_to(partition, offset, receive)

    async def _go_on_after_loss(self, partition: TopicPartition, wanted: int, receive: Receive) -> None:
        """The log does not have the offset wanted: go on at its beginning, and say what is lost."""
        place = ClientPartition(*partition)
        async with asyncio.timeout(self._timeout_seconds):
            beginning = (await self._consumer.beginning_offsets([place]))[place]
        if kafka_internals.position(self._consumer, partition) != wanted or partition not in self.owned:
            return
        if partition in self._claims:
            self._claims[partition] = beginning
        reason = what_was_lost(self._kafka, partition, wanted, beginning)
        if wanted > beginning and partition in self._positions:
            # A lane counts on offsets that grow: another assignment, hence another lane, begins below.
            log.error("joining again", reason=reason)
            kafka_internals.rejoin(self._consumer)
            return
        self._skip(partition, reason, wanted, beginning)
        self._go_to(partition, beginning, receive)

    def _skip(self, partition: TopicPartition, reason: str, wanted: int, beginning: int) -> None:
        skipped = max(0, beginning - wanted)
        log.error("skipped", reason=reason, skipped_records=skipped, next_offset=beginning)
        self.skipped_records[partition] += skipped

    def _go_to(self, partition: TopicPartition, offset: int, receive: Receive) -> None:
        self._consumer.seek(ClientPartition(*partition), offset)
        self._positions[partition] = offset
        receive(partition, [], offset)

    def _hand_over(self, partition: TopicPartition, records: Sequence[SourceRecord], receive: Receive) -> int:
        """Not a coroutine: the guarantees in the class's docstring rest on it."""
        if partition not in self.owned:
            if records:
                raise RuntimeError(f"records of {partition} outside an assignment: the client changed. This is a bug.")
            return 0
        position = kafka_internals.confirmed_position(self._consumer, partition)
        if position is None or position == self._positions.get(partition):
            return 0
        self._positions[partition] = position
        receive(partition, records, position)
        return len(records)
