"""The request topic, read as a member of the consumer group. Everything by hand: decoding, offsets, backpressure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import (
    CommitFailedError,
    CorruptRecordException,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.structs import ConsumerRecord

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_consumer import new_consumer, source_record
from consumer.errors import DependencyUnavailable, PartitionLost, SettingsInvalid
from consumer.interfaces import Receive
from consumer.records import SourceRecord, Standing, TopicPartition
from consumer.sections import KafkaSettings

log = structlog.get_logger()

_MEMBERSHIP_GONE = (
    CommitFailedError,
    IllegalGenerationError,
    IllegalStateError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
_UNDECODABLE = (UnicodeDecodeError, CorruptRecordException)
_NOT_UTF8 = "the record cannot be decoded: a header key is not UTF-8; fetch it by its topic, partition and offset"


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


class KafkaSource(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """A `RecordSource` on aiokafka's consumer.

    What `receive` may rely on, and why it holds:

    - Never an old record after `revoked` began. aiokafka sets its reassignment flag and calls the listener in one
      step, without an await between. A getmany() in flight looks at that flag, and at whether its buffer belongs to the
      live assignment, in the step in which it takes records out; and from there to `receive` nothing here awaits.
    - Never a record before `assigned` was entered. A new assignment has no positions, hence no fetch, until the task
      that looks them up runs; aiokafka creates that task and calls the listener in one step.
    - The next position belongs to exactly these records: it is read in the same step.

    Records of aborted transactions are not requests: isolation is read_committed.
    """

    def __init__(self, kafka: KafkaSettings, operation_timeout_seconds: float) -> None:
        self._kafka = kafka
        self._timeout_seconds = operation_timeout_seconds
        self._consumer: AIOKafkaConsumer = None
        self._assigned: Callable[[frozenset[TopicPartition]], Awaitable[None]]
        self._revoked: Callable[[frozenset[TopicPartition]], Awaitable[None]]
        self._owned: frozenset[TopicPartition] = frozenset()
        self._assignment_stands = False
        self._positions: dict[TopicPartition, int] = {}
        self._suspects: set[TopicPartition] = set()
        self._commits: set[asyncio.Task[None]] = set()
        self._listener_failure: Exception | None = None
        self._round: asyncio.Task[int] | None = None

    async def join(
        self,
        assigned: Callable[[frozenset[TopicPartition]], Awaitable[None]],
        revoked: Callable[[frozenset[TopicPartition]], Awaitable[None]],
    ) -> None:
        """Connect and begin to join; `assigned` tells when the group has answered.

        Raises DependencyUnavailable when no broker answers.
        """
        self._assigned, self._revoked = assigned, revoked
        self._consumer = new_consumer(self._kafka)
        try:
            await self._consumer.start()
        except KafkaError as error:
            await self._consumer.stop()
            raise DependencyUnavailable("kafka", str(error)) from error
        kafka_internals.pace_empty_fetches(self._consumer, self._kafka.fetch_max_wait_ms / 1000)
        kafka_internals.pace_metadata_updates(self._consumer)
        self._consumer.subscribe([self._kafka.request_topic], listener=self)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions owned now; none from the beginning of `revoked` to the beginning of `assigned`."""
        return self._owned

    def counted_in(self) -> bool:
        """False from the moment the broker refuses the membership until the group has answered a new join."""
        return kafka_internals.generation(self._consumer) != kafka_internals.NO_GENERATION

    async def fetch(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        """Hand at most `room` records of each partition to `receive`; returns how many came.

        Runs as a task of its own: a cancelled getmany() loses its place, so only `leave` ends one. In a rebalance it
        may take as long as the rebalance. Raises whatever failed in `assigned` or `revoked`, SettingsInvalid when
        there is no offset to start from and none may be chosen, UndecodableRecord, and the client's fatal errors.
        """
        self._round = asyncio.create_task(self._fetch_round(room, receive, wait_seconds))
        await asyncio.wait([self._round])
        if self._round.cancelled():
            return 0
        try:
            return self._round.result()
        except KafkaError as error:
            if not error.retriable:
                raise
            # Told once and then forgotten by the client, which goes on trying: a coordinator that restarts, for one.
            log.warning("fetching goes on after %r", error)
            await asyncio.sleep(wait_seconds)
            return 0

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset, None when there is none. Raises DependencyUnavailable."""
        async with self._mapped_errors("committed offsets"), asyncio.timeout(self._timeout_seconds):
            offset: int | None = await self._consumer.committed(ClientPartition(*partition))
            return offset

    async def notes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """The metadata of the group's committed offsets. Raises DependencyUnavailable."""
        wanted = [ClientPartition(*partition) for partition in partitions]
        async with self._mapped_errors("commit metadata"), asyncio.timeout(self._timeout_seconds):
            return await kafka_internals.commit_metadata(self._consumer, wanted)

    async def commit(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str] | None = None
    ) -> None:
        """Commit, a partition's note as its metadata, within the operation timeout.

        Raises PartitionLost, DependencyUnavailable, or the broker's refusal (authorization, for instance). A commit
        ends with its assignment: aiokafka would go on trying, with whatever generation it has by then.
        """
        if not self.counted_in():
            raise PartitionLost("the group no longer counts this worker in")
        notes = notes or {}
        wanted = {
            ClientPartition(*partition): (offset, notes.get(partition, "")) for partition, offset in offsets.items()
        }
        request = asyncio.create_task(self._consumer.commit(wanted))
        self._commits.add(request)
        try:
            async with self._mapped_errors("commit"), asyncio.timeout(self._timeout_seconds):
                await asyncio.wait([request])
                if request.cancelled():
                    raise PartitionLost("the assignment ended before the broker took the commit")
                request.result()
        finally:
            request.cancel()
            self._commits.discard(request)

    async def leave(self) -> None:
        """Leave the group and close, within the operation timeout, also when the broker is gone. Never raises."""
        self._owned = frozenset()
        if self._consumer is None:
            return
        stopping = asyncio.create_task(self._consumer.stop())
        await asyncio.wait([stopping], timeout=self._timeout_seconds)
        if not stopping.done() or stopping.cancelled() or stopping.exception() is not None:
            log.warning("did not leave the group; the session has to expire", group=self._kafka.group_id)
            stopping.cancel()
            await kafka_internals.abandon_consumer(self._consumer)
        if self._round is not None:
            self._round.cancel()

    def standing(self) -> Standing:
        """Where this worker stands with the group; an empty assignment is a membership too."""
        if self._consumer is None or not kafka_internals.knows_coordinator(self._consumer):
            return Standing.OUTSIDE
        return Standing.MEMBER if self._assignment_stands and self.counted_in() else Standing.REBALANCING

    def failure(self) -> str | None:
        """What has ended the client, None while it works; `fetch` raises it, but is not called while all lanes wait."""
        return None if self._consumer is None else kafka_internals.ended_task(self._consumer)

    async def on_partitions_revoked(self, revoked: set[ClientPartition]) -> None:
        """Called by aiokafka, which only logs what is raised here: `fetch` raises it instead."""
        self._owned = frozenset()
        self._assignment_stands = False
        self._positions.clear()
        try:
            if revoked:
                await self._revoked(frozenset(TopicPartition(*partition) for partition in revoked))
        except Exception as failure:  # noqa: BLE001  # raised by fetch
            self._listener_failure = failure
        finally:
            for request in self._commits:
                request.cancel()

    async def on_partitions_assigned(self, assigned: set[ClientPartition]) -> None:
        """Called by aiokafka, which only logs what is raised here: `fetch` raises it instead."""
        self._owned = frozenset(TopicPartition(*partition) for partition in assigned)
        self._assignment_stands = True
        self._suspects.clear()
        try:
            await self._assigned(self._owned)
        except Exception as failure:  # noqa: BLE001  # raised by fetch
            self._listener_failure = failure

    async def _fetch_round(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        if self._listener_failure is not None:
            raise self._listener_failure
        kafka_internals.raise_background_errors(self._consumer)
        count = 0
        for partition, limit in room.items():
            if limit and partition in self._owned:
                came = await self._ask([partition], limit, 0, receive)
                count += came
                if came:
                    await asyncio.sleep(0)
        if count:
            return count
        wanted = [partition for partition, limit in room.items() if limit and partition in self._owned]
        alone = [partition for partition in wanted if partition in self._suspects]
        if not wanted:
            await asyncio.sleep(wait_seconds)
        elif alone:
            for partition in alone:
                count += await self._ask([partition], 1, wait_seconds, receive)
        else:
            count = await self._ask(wanted, min(room[partition] for partition in wanted), wait_seconds, receive)
        return count

    async def _ask(self, partitions: list[TopicPartition], limit: int, wait_seconds: float, receive: Receive) -> int:
        if not self._suspects.isdisjoint(partitions):
            limit = 1
        try:
            answer = await self._consumer.getmany(
                *(ClientPartition(*partition) for partition in partitions),
                timeout_ms=round(wait_seconds * 1000),
                max_records=limit,
            )
        except (NoOffsetForPartitionError, OffsetOutOfRangeError) as error:
            raise SettingsInvalid(
                f"kafka.auto_offset_reset is none and the group {self._kafka.group_id} has no offset to start from "
                f"({error!r}): set it to earliest or latest, or set the group's offsets"
            ) from error
        except _UNDECODABLE as error:
            if len(partitions) == 1 and limit == 1:
                return self._step_over(partitions[0], error, receive)
            # aiokafka withholds the good records before the bad one: one at a time they come, and the bad one is known.
            self._suspects.update(partitions)
            return 0
        return sum(self._hand_over(partition, answer.get(partition, ()), receive) for partition in partitions)

    def _step_over(self, partition: TopicPartition, error: Exception, receive: Receive) -> int:
        """Hand over the place of a record with a header key that is not UTF-8. Raises UndecodableRecord for worse."""
        position = kafka_internals.position(self._consumer, partition)
        if position is None or not isinstance(error, UnicodeDecodeError):
            raise UndecodableRecord(partition, position, self._kafka.group_id, error) from error
        log.error("%s-%s: the record at offset %s has a header key that is not UTF-8", *partition, position)
        self._consumer.seek(ClientPartition(*partition), position + 1)
        self._suspects.discard(partition)
        self._positions[partition] = position + 1
        record = SourceRecord(*partition, position, 0, None, None, (), undecodable=_NOT_UTF8)
        receive(partition, [record], position + 1)
        return 1

    def _hand_over(self, partition: TopicPartition, records: Sequence[ConsumerRecord], receive: Receive) -> int:
        """Not a coroutine: the guarantees in the class's docstring rest on it."""
        if partition not in self._owned:
            if records:
                raise RuntimeError(f"records of {partition} outside an assignment: the client changed. This is a bug.")
            return 0
        position = kafka_internals.position(self._consumer, partition)
        if position is None or position == self._positions.get(partition):
            return 0
        self._positions[partition] = position
        receive(partition, [source_record(record) for record in records], position)
        return len(records)

    @asynccontextmanager
    async def _mapped_errors(self, operation: str) -> AsyncIterator[None]:
        try:
            yield
        except _MEMBERSHIP_GONE as error:
            raise PartitionLost(f"{operation}: {error}") from error
        except TimeoutError as error:
            reason = f"{operation}: no answer in {self._timeout_seconds:g} s"
            raise DependencyUnavailable("kafka", reason) from error
        except KafkaError as error:
            if not error.retriable:
                raise
            raise DependencyUnavailable("kafka", f"{operation}: {error!r}") from error
