"""The worker's uses of aiokafka's private attributes: each has no public way, or the public way waits for ever.

Read in aiokafka 0.14.0, which pyproject.toml pins to 0.14.x; tests/contract fails when one of them changes.
"""
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from math import inf
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import (
    KafkaError,
    NoError,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.commit import OffsetFetchRequest

from consumer.records import Fetched, TopicPartition

NO_GENERATION = -1
_ABANDON_SECONDS = 1.0
"""For each step of abandoning a client."""
_METADATA_SECONDS = 0.2
"""Between two questions for metadata."""


def generation(consumer: AIOKafkaConsumer) -> int:
    """The membership's generation, NO_GENERATION once the group no longer counts us in.

    A commit with NO_GENERATION must not be sent: the broker accepts it when the group is empty at that moment.
    """
    return int(consumer._coordinator.generation)


def position(consumer: AIOKafkaConsumer, partition: TopicPartition) -> int | None:
    """Offset of the next record to be read, None while it is unknown or the partition is not assigned.

    Never suspends. The public position() does, when the position is unknown: for up to the request timeout.
    """
    state = _partition_state(consumer, partition)
    return int(state.position) if state is not None and state.has_valid_position else None


def confirmed_position(consumer: AIOKafkaConsumer, partition: TopicPartition) -> int | None:
    """As `position`, but None until a fetch in this assignment was answered: the log may not have that offset."""
    state = _partition_state(consumer, partition)
    return None if state is None or state.highwater is None else position(consumer, partition)


def last_fetch(consumer: AIOKafkaConsumer, partition: TopicPartition) -> Fetched | None:
    """As of the last answer in this assignment. The public ways fail for a partition that is not assigned any more.

    A broker that knows of no last stable offset says -1, or leaves it out.
    """
    state = _partition_state(consumer, partition)
    if state is None or state.highwater is None:
        return None
    knows_stable = state.lso is not None and state.lso >= 0
    return Fetched(int(state.timestamp), int(state.lso if knows_stable else state.highwater), int(state.highwater))


def has_prefetched(consumer: AIOKafkaConsumer, partition: TopicPartition) -> bool:
    """Whether getmany() has something of this partition without waiting: records, or an error to raise."""
    return partition in consumer._fetcher._records


async def until_prefetched(consumer: AIOKafkaConsumer, timeout_seconds: float) -> None:
    """Wait until the client has fetched something of any partition. Raises what its coordination cannot go on after.

    The public getmany() takes what it has waited for.
    """
    news = consumer._fetcher._create_fetch_waiter()
    try:
        await asyncio.wait([news], timeout=timeout_seconds)
        if news.done():
            news.result()
    finally:
        news.cancel()


async def commit_metadata(consumer: AIOKafkaConsumer, partitions: list[ClientPartition]) -> dict[TopicPartition, str]:
    """The metadata of committed offsets; the public committed() returns the offset alone."""
    committed = await consumer._coordinator.fetch_committed_offsets(partitions)
    return {TopicPartition(*partition): str(one.metadata) for partition, one in committed.items()}


@dataclass(slots=True)
class SentCommits:
    """The commits of one consumer. `unanswered`: those that were sent and have no answer yet.

    `topic_unknown`: the last answer was that there is no such topic. That is the one refusal which the client tries
    again for ever, as it does what a coordinator says that is loading, or moves.
    """

    unanswered: set[asyncio.Task[None]] = field(default_factory=set)
    topic_unknown: bool = False


def follow_commits(consumer: AIOKafkaConsumer) -> SentCommits:
    """From now on. Call after start().

    A commit() that is cancelled leaves its request to itself: it goes on, nobody waits for its answer, and the event
    loop complains of the exception that nobody has retrieved.
    """
    coordinator = consumer._coordinator
    commit = coordinator._do_commit_offsets
    sent = SentCommits()

    def answered(request: asyncio.Task[None]) -> None:
        sent.unanswered.discard(request)
        failure = None if request.cancelled() else request.exception()
        sent.topic_unknown = isinstance(failure, UnknownTopicOrPartitionError)

    async def followed(assignment: object, offsets: object) -> None:
        # The client makes a task of each, which it shields.
        request = asyncio.current_task()
        assert request is not None
        sent.unanswered.add(request)
        request.add_done_callback(answered)
        await commit(assignment, offsets)

    coordinator._do_commit_offsets = followed
    return sent


def member_id(consumer: AIOKafkaConsumer) -> str:
    """The id that the coordinator gave this member; empty once the group no longer counts it in."""
    return str(consumer._coordinator.member_id)


async def ask_coordinator(consumer: AIOKafkaConsumer, request: Any) -> Any:
    """The group coordinator's answer. Raises KafkaError."""
    await consumer._coordinator.ensure_coordinator_known()
    return await consumer._coordinator._send_req(request)


def look_for_topic(consumer: AIOKafkaConsumer, topic: str) -> None:
    """Raise what keeps the client from seeing the topic, if anything does, and look again: by itself it looks rarely.

    A leader that does not see it gives nobody any partition.
    """
    cluster = consumer._client.cluster
    if cluster.partitions_for_topic(topic) is not None:
        return
    consumer._client.force_metadata_update()
    hidden = topic in cluster.unauthorized_topics
    raise TopicAuthorizationFailedError(topic) if hidden else UnknownTopicOrPartitionError(topic)


def rejoin(consumer: AIOKafkaConsumer) -> None:
    """Give up the assignment, as in any rebalance, and get a new one."""
    consumer._coordinator.request_rejoin()


async def end_coordination(consumer: AIOKafkaConsumer, reason: KafkaError) -> None:
    """Never join again, and let a getmany() that waits for an assignment raise `reason`. Does not return.

    For the listener's use: what it raises the client only logs, and then it joins.
    """
    consumer._subscription.abort_waiters(reason)
    consumer._coordinator._coordination_task.cancel()
    await asyncio.sleep(0)


def outlive_refusals(
    consumer: AIOKafkaConsumer, passes: Callable[[KafkaError], Awaitable[bool]], answered: Callable[[], None]
) -> None:
    """Let the client's coordination go on after an error for which `passes` returns True. Call after start().

    The client's own way is to stand still until the next getmany() has raised the error, which does not come while
    nothing is asked for; and the task that failed, heartbeats for instance, is not started again. `passes` decides how
    long to wait. `answered` is called at each heartbeat that the coordinator accepts.
    """
    coordinator = consumer._coordinator
    tell, beat = coordinator._push_error_to_user, coordinator._do_heartbeat

    async def outlive(error: KafkaError) -> None:
        if not await passes(error):
            await tell(error)
            return
        assignment = consumer._subscription.subscription.assignment
        if coordinator._heartbeat_task is not None and coordinator._heartbeat_task.done():
            coordinator._heartbeat_task = None
            coordinator._start_heartbeat_task()
        if coordinator._commit_refresh_task is not None and coordinator._commit_refresh_task.done():
            coordinator.start_commit_offsets_refresh_task(assignment)

    async def beaten() -> bool:
        accepted = bool(await beat())
        if accepted:
            answered()
        return accepted

    coordinator._push_error_to_user, coordinator._do_heartbeat = outlive, beaten


def heed_errors_of_whole_answers(consumer: AIOKafkaConsumer) -> None:
    """Raise what the coordinator says of an OffsetFetch as a whole. Call after start().

    The client reads the errors of single partitions only, which that version of the protocol no longer has: to a
    coordinator that is loading its offsets, or that refuses, it listens as if the group had none, and begins anew.
    """
    coordinator = consumer._coordinator
    send = coordinator._send_req

    async def heed(request: Any) -> Any:
        answer = await send(request)
        if isinstance(request, OffsetFetchRequest):
            error = for_code(getattr(answer, "error_code", 0))
            if error is NotCoordinatorForGroupError:
                coordinator.coordinator_dead()
            if error is not NoError:
                raise error
        return answer

    coordinator._send_req = heed


def knows_brokers(consumer: AIOKafkaConsumer) -> bool:
    """Whether the metadata has any broker. Of one that has only just started it may have none."""
    return consumer._client.get_random_node() is not None


def knows_coordinator(consumer: AIOKafkaConsumer) -> bool:
    """Whether the group's coordinator answered when it was last asked: each heartbeat asks."""
    return consumer._coordinator is not None and consumer._coordinator.coordinator_id is not None


def ended_task(consumer: AIOKafkaConsumer) -> str | None:
    """Which of the client's own tasks has ended, and why; None while they run, as they do for the client's life."""
    if consumer._coordinator is None:
        return None
    for name, task in (
        ("fetch", consumer._fetcher.error_future),
        ("coordination", consumer._coordinator._coordination_task),
    ):
        if task.done():
            failure = None if task.cancelled() else task.exception()
            return f"the client's {name} task has ended: {failure!r}"
    return None


def raise_background_errors(consumer: AIOKafkaConsumer) -> None:
    """Raise what ended, or holds up, the client's own tasks: getmany() tells it too, but waits in a rebalance.

    A fetch task that died is told by nothing at all: getmany() then returns nothing for ever.
    """
    consumer._coordinator.check_errors()
    fetching = consumer._fetcher.error_future
    if fetching.done() and not fetching.cancelled():
        fetching.result()


def pace_empty_fetches(consumer: AIOKafkaConsumer, least_seconds: float) -> None:
    """Let an empty fetch take at least so long, as the broker was asked to.

    Apache Kafka waits fetch_max_wait_ms for something to come. Embedded brokers answer "nothing" at once, and the
    client asks again at once: half a core for an idle worker. Call after start().
    """
    fetch = consumer._fetcher._proc_fetch_request

    async def paced(*request: object) -> bool:
        begun = time.monotonic()
        try:
            something = bool(await fetch(*request))
            if not something:
                await asyncio.sleep(begun + least_seconds - time.monotonic())
        except asyncio.CancelledError:
            # As the original does, save when it pauses after a failure: its caller reads the answer of a fetch that it
            # cancelled, and a stop() would end half-way.
            return False
        return something

    consumer._fetcher._proc_fetch_request = paced


def pace_metadata_updates(member: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Ask for the cluster's metadata five times a second at most.

    A client that knows no leader for a partition asks again as soon as it has its answer: for a topic that was deleted,
    or while a leader is elected, hundreds of times a second, and logs each answer. Call after start().
    """
    client = _client(member)
    update = client._metadata_update
    last = -inf

    async def paced(*request: object) -> bool:
        nonlocal last
        await asyncio.sleep(last + _METADATA_SECONDS - time.monotonic())
        last = time.monotonic()
        return bool(await update(*request))

    client._metadata_update = paced


def renew_password(member: AIOKafkaConsumer | AIOKafkaProducer, password: Callable[[], str]) -> None:
    """Let every new connection use the password as it is then. Call after start()."""
    client = _client(member)
    connect = client._get_conn

    async def renewed(*node: Any, **options: Any) -> Any:
        client._sasl_plain_password = password()
        return await connect(*node, **options)

    client._get_conn = renewed


def tell_connections(member: AIOKafkaConsumer | AIOKafkaProducer, told: Callable[[bool], None]) -> None:
    """Call `told` whenever the client needs a connection: whether it has one. Call after start().

    The client logs why it has none, and otherwise only tries again.
    """
    client = _client(member)
    connect = client._get_conn

    async def telling(*node: Any, **options: Any) -> Any:
        connection = await connect(*node, **options)
        told(connection is not None)
        return connection

    client._get_conn = telling


async def abandon_consumer(consumer: AIOKafkaConsumer) -> None:
    """Free what a stop() that did not come back has left: tasks and connections. Without leaving the group; bounded."""
    coordinator = consumer._coordinator
    if coordinator is not None:
        tasks = [coordinator._coordination_task, coordinator._heartbeat_task, coordinator._commit_refresh_task]
        await _cancel([task for task in tasks if task is not None])
        await _bounded(consumer._fetcher.close())
    await _bounded(consumer._client.close())


async def abandon_producer(producer: AIOKafkaProducer) -> None:
    """End a producer without flushing: what it holds is not sent any more, save what is on the wire already. Bounded.

    The public stop() flushes first, hence waits for ever when the broker is away. Cancelling the sender makes it wait
    for its requests; closing the connections fails those; the second cancel ends their retry.
    """
    producer._closed = True
    sender = producer._sender.sender_task
    if sender is not None:
        sender.cancel()
    # A connection closes when its buffer is written, which a frozen broker does not let happen.
    await _bounded(producer.client.close())
    if sender is not None:
        await _cancel([sender])


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_ABANDON_SECONDS)


async def _bounded(closing: Coroutine[None, None, None]) -> None:
    task = asyncio.create_task(closing)
    await asyncio.wait([task], timeout=_ABANDON_SECONDS)
    task.cancel()


def _client(member: AIOKafkaConsumer | AIOKafkaProducer) -> Any:
    return member._client if isinstance(member, AIOKafkaConsumer) else member.client


def _partition_state(consumer: AIOKafkaConsumer, partition: TopicPartition) -> Any:
    subscription = consumer._subscription.subscription
    assignment = subscription.assignment if subscription is not None else None
    return assignment.state_value(partition) if assignment is not None else None
