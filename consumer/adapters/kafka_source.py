"""The request topic, read as a member of the consumer group. Everything by hand: decoding, offsets, backpressure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog
from aiokafka import ConsumerRebalanceListener
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_connection import Connecting, Hindrances, follow_credentials
from consumer.adapters.kafka_consumer import new_consumer, source_record
from consumer.adapters.kafka_group import why_not_let_in
from consumer.adapters.kafka_instance import instance_is_taken, tells_of_taken_instance
from consumer.adapters.kafka_leaving import leave_group
from consumer.adapters.kafka_reader import KafkaReader
from consumer.errors import DependencyUnavailable, Hindrance, PartitionLost, SettingsInvalid, Unanswered
from consumer.interfaces import Receive
from consumer.records import Fetched, Standing, TopicPartition
from consumer.sections import KafkaSettings
from producer_tools.reading.fetches import MAX_UNPACKED_BYTES, Bounds, owes, read_within

log = structlog.get_logger()

_MEMBERSHIP_GONE = (
    CommitFailedError,
    IllegalGenerationError,
    IllegalStateError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
_REFUSED_SECONDS = 0.5
"""Between two attempts at what the broker refuses."""

_PASSING = (TimeoutError, KafkaTimeoutError, GroupAuthorizationFailedError, TopicAuthorizationFailedError)
"""Beside what the client itself calls retriable. What an ACL forbids, the next one may allow."""
_OFFSETS_FORBIDDEN = (repr(TopicAuthorizationFailedError()),)
"""Arguments of the bare KafkaError that aiokafka makes of it where committed offsets are asked for."""

Listener = Callable[[frozenset[TopicPartition]], Awaitable[None]]


class KafkaSource(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """A `RecordSource` on aiokafka's consumer: the membership and the commits. KafkaReader says what is received when.

    What the broker does not allow (an ACL that was taken away) is tried again until it is allowed, and told by
    `hindrances`: to leave would not help, and what is held is not lost.
    """

    def __init__(
        self, kafka: KafkaSettings, operation_timeout_seconds: float, max_unpacked_bytes: int = MAX_UNPACKED_BYTES
    ) -> None:
        self._kafka = kafka
        self._max_unpacked_bytes = max_unpacked_bytes
        self._timeout_seconds = operation_timeout_seconds
        self._consumer = new_consumer(kafka)
        self._reader = KafkaReader(kafka, self._consumer, operation_timeout_seconds)
        self._assigned: Listener
        self._revoked: Listener
        self._assignment_stands = False
        self._member: tuple[int, str] | None = None
        self._hindrances = Hindrances()
        self._commits: set[asyncio.Task[None]] = set()
        self._sent_commits = kafka_internals.SentCommits()
        self._failure: Exception | None = None
        self._round: asyncio.Task[int] | None = None
        self.not_left: str | None = None
        """After `leave`: why the group may still count this worker in, None when it does not."""
        self._connecting = Connecting(kafka, partial(self._hindrances.note, "connecting"))

    async def join(self, assigned: Listener, revoked: Listener) -> None:
        """Connect and begin to join; `assigned` tells when the group has answered.

        Raises DependencyUnavailable when no broker answers.
        """
        self._assigned, self._revoked = assigned, revoked
        try:
            await self._consumer.start()
        except KafkaError as error:
            await self._consumer.stop()
            raise DependencyUnavailable("kafka", str(error)) from error
        if not kafka_internals.knows_brokers(self._consumer):
            # The client could ask nobody any more, not even for other metadata, and its coordination would end.
            await self._consumer.stop()
            raise DependencyUnavailable("kafka", "the broker that answered knows of no broker yet")
        follow_credentials(self._kafka, self._consumer)
        bounds = Bounds(self._kafka.max_partition_fetch_bytes, self._max_unpacked_bytes, steps=1)
        read_within(self._consumer, bounds, source_record)
        kafka_internals.tell_connections(self._consumer, self._connecting.told)
        kafka_internals.pace_empty_fetches(self._consumer, self._kafka.fetch_max_wait_ms / 1000)
        kafka_internals.pace_metadata_updates(self._consumer)
        self._sent_commits = kafka_internals.follow_commits(self._consumer)
        kafka_internals.heed_errors_of_whole_answers(self._consumer)
        kafka_internals.outlive_refusals(self._consumer, self._passes, lambda: self._hindrances.note("group", None))
        self._consumer.subscribe([self._kafka.request_topic], listener=self)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions owned now; none from the beginning of `revoked` to the beginning of `assigned`."""
        return self._reader.owned

    def counted_in(self) -> bool:
        """False from the moment the broker refuses the membership until the group has answered a new join."""
        return kafka_internals.generation(self._consumer) != kafka_internals.NO_GENERATION

    async def fetch(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        """Hand at most `room` records of each partition to `receive`; returns how many came.

        Runs as a task of its own: a cancelled getmany() loses its place, so only `leave` ends one. In a rebalance it
        may take as long as the rebalance. Raises whatever failed in `assigned` or `revoked`, SettingsInvalid when
        there is no offset to go on from and none may be chosen, or when another member has this one's instance id,
        UndecodableRecord, and the client's fatal errors.
        """
        self._round = asyncio.create_task(self._read(room, receive, wait_seconds))
        await asyncio.wait([self._round])
        if self._round.cancelled():
            return 0
        try:
            count = self._round.result()
        except (KafkaError, TimeoutError) as error:
            if self._failure is not None:
                raise self._failure from None
            if not _passes_by(error):
                raise
            # Told once and then forgotten by the client, which goes on trying.
            self._hindrances.note("reading", error)
            await asyncio.sleep(max(wait_seconds, _REFUSED_SECONDS))
            return 0
        self._hindrances.note("reading", None)
        return count

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

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """Of each partition owned now, the offset after the last record that may be read.

        Raises DependencyUnavailable for whatever the broker says: nothing depends on the answer.
        """
        wanted = [ClientPartition(*partition) for partition in self._reader.owned]
        try:
            async with asyncio.timeout(self._timeout_seconds):
                ends = await self._consumer.end_offsets(wanted) if wanted else {}
        except (KafkaError, TimeoutError) as error:
            raise DependencyUnavailable("kafka", f"end offsets: {error!r}") from error
        return {TopicPartition(*partition): offset for partition, offset in ends.items()}

    async def commit(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str] | None = None
    ) -> None:
        """Commit, a partition's note as its metadata, within the operation timeout.

        Raises PartitionLost, Unanswered, DependencyUnavailable, or what the client does not expect of a broker. A
        commit ends with its assignment: aiokafka would go on trying, with whatever generation it has by then. And one
        is on its way at a time: none is sent before the coordinator has answered the last, also when that was given up.
        """
        self._reader.answered(offsets)
        if not self.counted_in():
            raise PartitionLost("the group no longer counts this worker in")
        notes = notes or {}
        wanted = {
            ClientPartition(*partition): (offset, notes.get(partition, "")) for partition, offset in offsets.items()
        }
        request = asyncio.create_task(self._commit_after_the_last(wanted))
        self._commits.add(request)
        try:
            async with self._mapped_errors("commit"), asyncio.timeout(self._timeout_seconds):
                await asyncio.wait([request])
                if request.cancelled():
                    raise PartitionLost("the assignment ended before the broker took the commit")
                request.result()
        except Unanswered as late:
            if self._sent_commits.topic_unknown:
                raise DependencyUnavailable("kafka", "commit: the topic does not exist") from late
            raise
        finally:
            request.cancel()
            self._commits.discard(request)

    async def _commit_after_the_last(self, wanted: Mapping[ClientPartition, tuple[int, str]]) -> None:
        if self._sent_commits.unanswered:
            await asyncio.wait(self._sent_commits.unanswered)
        await self._consumer.commit(wanted)

    async def leave(self) -> None:
        """Leave the group, also in the middle of a join, and close; within twice the operation timeout. Never raises.

        `not_left` says whether that went well. A static member does not leave: its partitions wait for it until its
        session expires.
        """
        self._reader.end()
        self._connecting.end()
        if self._round is not None:
            # A rebalance may hold it for as long as it lasts.
            self._round.cancel()
            await asyncio.wait([self._round])
        if reason := await leave_group(self._consumer, self._timeout_seconds):
            self.not_left = f"did not leave the group {self._kafka.group_id}: its session has to expire ({reason})"
            log.warning("did not leave the group; the session has to expire", reason=reason)
        stopping = asyncio.create_task(self._consumer.stop())
        await asyncio.wait([stopping], timeout=self._timeout_seconds)
        if not stopping.done() or stopping.cancelled() or stopping.exception() is not None:
            stopping.cancel()
            await kafka_internals.abandon_consumer(self._consumer)

    def standing(self) -> Standing:
        """Where this worker stands with the group; an empty assignment is a membership too."""
        if not kafka_internals.knows_coordinator(self._consumer):
            return Standing.OUTSIDE
        return Standing.MEMBER if self._assignment_stands and self.counted_in() else Standing.REBALANCING

    def last_fetch(self, partition: TopicPartition) -> Fetched | None:
        """What the broker last said of a partition; None until it has answered in this assignment, or not owned.

        While a record of it is being passed over, there is nothing else to read, as of now.
        """
        fetched = kafka_internals.last_fetch(self._consumer, partition)
        if fetched is None or not owes(self._consumer, partition):
            return fetched
        position = kafka_internals.position(self._consumer, partition) or 0
        return Fetched(round(time.time() * 1000), position, position)

    def failure(self) -> str | None:
        """What has ended the client, None while it works; `fetch` raises it, but is not called while all lanes wait."""
        if self._failure is not None:
            return str(self._failure)
        return kafka_internals.ended_task(self._consumer)

    def hindrances(self) -> dict[Hindrance, str]:
        """What kept it from reading, or from being a member, when it was last tried; empty when nothing does."""
        return self._hindrances.told()

    @property
    def skipped_records(self) -> int:
        """Records that retention removed before they were read, in offsets, since the start."""
        return self._reader.skipped_records.total()

    async def on_partitions_revoked(self, revoked: set[ClientPartition]) -> None:
        """Called by aiokafka, which only logs what is raised here: `fetch` raises it instead."""
        self._reader.end()
        self._assignment_stands = False
        try:
            if revoked:
                await self._revoked(frozenset(TopicPartition(*partition) for partition in revoked))
        except Exception as failure:  # noqa: BLE001  # raised by fetch
            self._failure = failure
        finally:
            for request in self._commits:
                request.cancel()
        if self._kafka.group_instance_id is not None and self._member is not None and not self.counted_in():
            await self._yield_instance(self._kafka.group_instance_id, *self._member)

    async def on_partitions_assigned(self, assigned: set[ClientPartition]) -> None:
        """Called by aiokafka, which only logs what is raised here: `fetch` raises it instead."""
        self._reader.begin(frozenset(TopicPartition(*partition) for partition in assigned))
        self._assignment_stands = True
        self._member = (kafka_internals.generation(self._consumer), kafka_internals.member_id(self._consumer))
        self._hindrances.note("group", None)
        try:
            await self._assigned(self._reader.owned)
        except Exception as failure:  # noqa: BLE001  # raised by fetch
            self._failure = failure

    async def _read(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        if self._failure is not None:
            raise self._failure
        kafka_internals.raise_background_errors(self._consumer)
        if self._assignment_stands and not self._reader.owned:
            kafka_internals.look_for_topic(self._consumer, self._kafka.request_topic)
        return await self._reader.read(room, receive, wait_seconds)

    async def _yield_instance(self, instance_id: str, generation: int, member_id: str) -> None:
        """Before a static member joins again: not when another has taken its id, or the two would for ever."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                taken = await instance_is_taken(
                    self._consumer, self._kafka.group_id, instance_id, generation, member_id
                )
        except (KafkaError, TimeoutError) as error:
            log.warning("not known whether another member has this one's instance id", reason=repr(error))
            return
        if taken:
            self._failure = self._duplicate()
            await kafka_internals.end_coordination(self._consumer, KafkaError("the instance id is another member's"))

    async def _passes(self, error: KafkaError) -> bool:
        """Whether the client's coordination shall go on after this error, which it is then to do at once."""
        if self._kafka.group_instance_id is not None and tells_of_taken_instance(error):
            self._failure = self._duplicate()
            return False
        if isinstance(error, InconsistentGroupProtocolError):
            ask = partial(kafka_internals.ask_coordinator, self._consumer)
            self._failure = SettingsInvalid(await why_not_let_in(ask, self._kafka, error, self._timeout_seconds))
            return False
        if not _passes_by(error):
            self._failure = error
            return False
        self._hindrances.note("group", error)
        await asyncio.sleep(_REFUSED_SECONDS)
        return True

    def _duplicate(self) -> SettingsInvalid:
        return SettingsInvalid(
            f"kafka.group_instance_id {self._kafka.group_instance_id} is in use by another worker of the group "
            f"{self._kafka.group_id}, which has taken this one's place: give each worker an id of its own, made of its "
            "host and index for instance, or leave the setting empty"
        )

    @asynccontextmanager
    async def _mapped_errors(self, operation: str) -> AsyncIterator[None]:
        try:
            yield
        except _MEMBERSHIP_GONE as error:
            raise PartitionLost(f"{operation}: {error}") from error
        except TimeoutError as error:
            reason = f"{operation}: no answer in {self._timeout_seconds:g} s"
            raise Unanswered("kafka", reason) from error
        except KafkaError as error:
            if not _passes_by(error):
                raise
            raise DependencyUnavailable("kafka", f"{operation}: {error!r}") from error


def _passes_by(error: Exception) -> bool:
    if isinstance(error, _PASSING):
        return True
    return isinstance(error, KafkaError) and (bool(error.retriable) or error.args == _OFFSETS_FORBIDDEN)
