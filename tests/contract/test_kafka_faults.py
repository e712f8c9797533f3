"""The Kafka adapters when a record, a setting or the broker is bad."""

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import InvalidSessionTimeoutError, NodeNotReadyError

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_source import KafkaSource
from consumer.adapters.kafka_writer import KafkaResultWriter
from consumer.errors import DependencyUnavailable, PartitionLost, SettingsInvalid, Unanswered
from consumer.records import Message, SourceRecord, TopicPartition
from consumer.sections import OffsetReset
from tests.contract.clusters import MAX_MESSAGE_BYTES, OPERATION_SECONDS, BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.services.batches import batch, packed_batch, publish_batch, record
from tests.services.kafka import KafkaNode
from tests.services.process import wait_until

BUSY_SECONDS = 25.0
"""What a busy machine may add to a deadline; still less than the client's own request timeout."""


@pytest_asyncio.fixture
async def cluster(kafka: KafkaNode) -> AsyncIterator[BrokerCluster]:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(2)
    yield cluster
    await cluster.close()


@pytest_asyncio.fixture
async def own_kafka(tmp_path: Path) -> AsyncIterator[KafkaNode]:
    node = KafkaNode(tmp_path)
    await node.start()
    yield node
    await node.kill()


async def test_a_record_with_a_header_name_that_is_not_utf_8_is_read_and_the_name_escaped(
    cluster: BrokerCluster,
) -> None:
    await cluster.publish(0, [b"a", b"b", b"c"])
    await publish_batch(
        cluster.kafka.bootstrap_servers,
        cluster.topic,
        0,
        batch([record(0, b"v", b"k", [(b"\xff\xfe", b""), (b"good", None)])]),
    )
    await cluster.publish(0, [b"after"])
    await cluster.publish(1, [b"other"] * 5)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 2)
    place = TopicPartition(cluster.topic, 0)
    await fetch_until(source, receiver, lambda: len(receiver.values.get(place, ())) == 5)
    assert receiver.values[place] == [b"a", b"b", b"c", b"v", b"after"]
    misnamed = next(one for one in receiver.records if one.misnamed)
    assert (misnamed.key, misnamed.headers) == (b"k", (("\\xff\\xfe", b""), ("good", None)))
    assert misnamed.misnamed is not None
    assert "index 0 is not UTF-8" in misnamed.misnamed
    await source.leave()


@pytest.mark.parametrize("codec", ["gzip", "snappy of Java", "lz4", "zstd"])
async def test_a_record_that_is_too_large_unpacked_is_its_place_and_its_neighbours_come(
    cluster: BrokerCluster, codec: str
) -> None:
    """The broker holds some kilobytes of it."""
    values = [b"before", b"\0" * (900_000 if codec.startswith("snappy") else 9_000_000), b"behind"]
    source, receiver = cluster.source(max_unpacked_bytes=800_000), Receiver()
    await publish_batch(
        cluster.kafka.bootstrap_servers,
        cluster.topic,
        0,
        packed_batch(codec, [record(n, value) for n, value in enumerate(values)]),
    )
    await cluster.publish(0, [b"after"])
    await joined(source, receiver, 2)
    place = TopicPartition(cluster.topic, 0)
    await fetch_until(source, receiver, lambda: len(receiver.values.get(place, ())) == 4)
    assert receiver.values[place] == [b"before", None, b"behind", b"after"]
    assert receiver.next_offsets[place] == 4
    [unread] = [one for one in receiver.records if one.unread]
    assert "limits.max_unpacked_bytes is 800000" in (unread.unread or "")
    await source.leave()


async def test_a_small_batch_with_much_in_it_comes_in_portions(cluster: BrokerCluster) -> None:
    values = [b"%d" % number * 100_000 for number in range(200)]
    await publish_batch(
        cluster.kafka.bootstrap_servers,
        cluster.topic,
        0,
        packed_batch("zstd", [record(n, value) for n, value in enumerate(values)]),
    )
    source, receiver = cluster.source(), Receiver()
    portions: list[int] = []

    def receive(partition: TopicPartition, records: Sequence[SourceRecord], next_offset: int) -> None:
        portions.append(sum(one.size_bytes for one in records))
        receiver.receive(partition, records, next_offset)

    await joined(source, receiver, 2)
    place = TopicPartition(cluster.topic, 0)
    deadline = time.monotonic() + BUSY_SECONDS
    while len(receiver.values.get(place, ())) < 200 and time.monotonic() < deadline:
        await source.fetch({place: 4096}, receive, 0.05)
    assert receiver.values[place] == values
    assert max(portions) <= cluster.kafka.max_partition_fetch_bytes + len(values[-1])
    await source.leave()


async def test_without_an_offset_and_without_a_reset_the_setting_is_named(cluster: BrokerCluster) -> None:
    cluster.kafka = cluster.kafka.model_copy(update={"auto_offset_reset": OffsetReset.NONE})
    await cluster.publish(0, [b"a"])
    source, receiver = cluster.source(), Receiver()
    await source.join(receiver.assigned, receiver.revoked)
    with pytest.raises(SettingsInvalid, match="auto_offset_reset"):
        await fetch_until(source, receiver, lambda: False)


async def test_a_refusal_to_join_comes_out_of_fetch_though_nothing_is_owned(cluster: BrokerCluster) -> None:
    cluster.kafka = cluster.kafka.model_copy(update={"session_timeout_seconds": 1})
    source, receiver = cluster.source(), Receiver()
    await source.join(receiver.assigned, receiver.revoked)
    with pytest.raises(InvalidSessionTimeoutError):
        await fetch_until(source, receiver, lambda: False)


async def test_without_a_generation_nothing_is_committed(cluster: BrokerCluster) -> None:
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 2)
    place = TopicPartition(cluster.topic, 0)
    source._consumer._coordinator.generation = kafka_internals.NO_GENERATION
    with pytest.raises(PartitionLost, match="no longer counts"):
        await source.commit({place: 1})
    assert await source.committed(place) is None


async def test_nobody_at_the_address_is_an_unavailable_dependency(free_port: int) -> None:
    cluster = BrokerCluster(f"127.0.0.1:{free_port}")
    source, receiver = cluster.source(), Receiver()
    with pytest.raises(DependencyUnavailable):
        await source.join(receiver.assigned, receiver.revoked)
    await source.leave()
    writer = cluster.results()
    with pytest.raises(DependencyUnavailable):
        await writer.write(0, [Message(None, b"x", ())])
    await writer.close()


async def test_a_frozen_broker_holds_commits_and_writes_no_longer_than_their_deadlines(own_kafka: KafkaNode) -> None:
    cluster = BrokerCluster(own_kafka.bootstrap_servers)
    await cluster.create(2)
    source, receiver, writer = cluster.source(), Receiver(), cluster.results()
    await joined(source, receiver, 2)
    await asyncio.gather(*(writer.write(partition, [Message(None, b"0", ())]) for partition in (0, 1)))

    own_kafka.freeze()
    began = time.monotonic()
    outcomes = await asyncio.gather(
        source.commit({TopicPartition(cluster.topic, 0): 1}),
        writer.write(0, [Message(None, b"1", ())]),
        writer.write(1, [Message(None, b"1", ())]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [Unanswered, DependencyUnavailable, DependencyUnavailable]
    assert time.monotonic() - began < OPERATION_SECONDS + BUSY_SECONDS

    own_kafka.thaw()
    for partition in (0, 1):
        await until_taken(writer, partition, [Message(None, b"1", ()), Message(None, b"2", ())])
        values = [record.value for record in await cluster.records(partition)]
        assert list(dict.fromkeys(values)) == [b"0", b"1", b"2"], "first occurrences stay in order"
    await cluster.close()


async def test_while_a_commit_is_not_answered_none_follows_and_what_was_given_up_is_retrieved(
    own_kafka: KafkaNode, caplog: pytest.LogCaptureFixture
) -> None:
    # A captured line would keep the exception, and so the task that nobody retrieves.
    caplog.set_level(logging.CRITICAL, "aiokafka")
    cluster = BrokerCluster(own_kafka.bootstrap_servers)
    await cluster.create(1)
    await cluster.publish(0, [b"x"] * 9)
    source, receiver = KafkaSource(cluster.kafka, 0.3), Receiver()
    place = TopicPartition(cluster.topic, 0)
    await joined(source, receiver, 1)
    sent, complaints = 0, list[str]()
    send = source._consumer._client.send

    async def count(node_id: int, request: Any, **options: Any) -> Any:
        nonlocal sent
        sent += type(request).__name__.startswith("OffsetCommitRequest")
        return await send(node_id, request, **options)

    source._consumer._client.send = count
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context["message"]))
    own_kafka.freeze()
    for offset in range(1, 6):
        with pytest.raises(Unanswered, match=r"commit: no answer in 0\.3 s"):
            await source.commit({place: offset})
    assert sent == 1
    own_kafka.thaw()
    async with asyncio.timeout(BUSY_SECONDS):
        while await source.committed(place) != 9:
            with contextlib.suppress(DependencyUnavailable):
                await source.commit({place: 9})
    # What is lost with the connection fails.
    own_kafka.freeze()
    with pytest.raises(Unanswered):
        await source.commit({place: 9})
    assert len(source._sent_commits.unanswered) == 1
    await own_kafka.kill()
    await wait_until(lambda: not source._sent_commits.unanswered, "it has failed", BUSY_SECONDS)
    await source.leave()
    gc.collect()
    assert complaints == []


async def test_a_broker_that_restarts_takes_the_same_batch_again(own_kafka: KafkaNode) -> None:
    cluster = BrokerCluster(own_kafka.bootstrap_servers)
    await cluster.create(1)
    writer = cluster.results()
    await writer.write(0, [Message(None, b"0", ())])
    await own_kafka.kill()
    with pytest.raises(DependencyUnavailable):
        await writer.write(0, [Message(None, b"1", ())])
    await own_kafka.start()
    await until_taken(writer, 0, [Message(None, b"1", ())])
    values = [record.value for record in await cluster.records(0)]
    assert values == [b"0", b"1"], "a discarded producer sends nothing any more"
    await cluster.close()


async def test_a_cancelled_write_is_followed_by_ordered_ones(cluster: BrokerCluster) -> None:
    writer = cluster.results()
    await writer.write(0, [Message(None, b"0", ())])
    cancelled = asyncio.create_task(writer.write(0, [Message(None, b"1", ())]))
    await asyncio.sleep(0)
    cancelled.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await cancelled
    await until_taken(writer, 0, [Message(None, b"1", ()), Message(None, b"2", ())])
    values = [record.value for record in await cluster.records(0)]
    assert list(dict.fromkeys(values)) == [b"0", b"1", b"2"]


async def test_leaving_is_bounded_when_the_broker_is_frozen_or_gone(own_kafka: KafkaNode) -> None:
    cluster = BrokerCluster(own_kafka.bootstrap_servers)
    await cluster.create(1)
    before = clients_tasks()
    for vanish in (own_kafka.freeze, own_kafka.kill):
        source, receiver, writer = KafkaSource(cluster.kafka, 2.0), Receiver(), cluster.results()
        await joined(source, receiver, 1)
        await writer.write(0, [Message(None, b"x", ())])
        gone = vanish()
        if gone is not None:
            await gone
        began = time.monotonic()
        await source.leave()
        await writer.close()
        assert time.monotonic() - began < BUSY_SECONDS
        if vanish == own_kafka.freeze:
            own_kafka.thaw()
    await wait_until(lambda: not clients_tasks() - before, "the clients' tasks have ended")


def clients_tasks() -> set[asyncio.Task[Any]]:
    """What aiokafka's consumers and producers run beside their callers, and has not ended."""
    parts = ("Coordinator", "Fetcher", "Sender")
    return {task for task in asyncio.all_tasks() if any(part in repr(task.get_coro()) for part in parts)}


async def test_leaving_does_not_raise_while_the_client_pauses_after_a_failed_fetch(cluster: BrokerCluster) -> None:
    before = clients_tasks()
    source, receiver = KafkaSource(cluster.kafka, 2.0), Receiver()
    await joined(source, receiver, 2)
    await fetch_until(source, receiver, lambda: len(receiver.next_offsets) == 2)
    consumer = source._consumer
    send, failing = consumer._client.send, asyncio.Event()

    async def refuse_fetches(node_id: int, request: Any, **options: Any) -> Any:
        if type(request).__name__.startswith("FetchRequest"):
            failing.set()
            raise NodeNotReadyError
        return await send(node_id, request, **options)

    consumer._fetcher._retry_backoff = 60.0
    consumer._client.send = refuse_fetches
    await failing.wait()
    await source.leave()
    await wait_until(lambda: not clients_tasks() - before, "the client's tasks have ended")


async def test_a_topic_limit_lowered_while_running_holds_the_lane(kafka: KafkaNode) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    writer = KafkaResultWriter(cluster.kafka, 4 * MAX_MESSAGE_BYTES)
    await writer.write(0, [Message(None, b"0", ())])
    with pytest.raises(DependencyUnavailable, match="MessageSizeTooLarge"):
        await writer.write(0, [Message(None, b"x" * 2 * MAX_MESSAGE_BYTES, ())])
    await writer.write(0, [Message(None, b"1", ())])
    assert [record.value for record in await cluster.records(0)] == [b"0", b"1"]
    await writer.close()


async def test_a_topic_limit_lowered_while_running_lets_small_messages_pass_in_smaller_batches(
    kafka: KafkaNode,
) -> None:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    writer = KafkaResultWriter(cluster.kafka, 100 * MAX_MESSAGE_BYTES)
    values = [b"%d" % number + b"x" * (MAX_MESSAGE_BYTES // 5) for number in range(50)]
    await until_taken(writer, 0, [Message(None, value, ()) for value in values])
    taken = [record.value for record in await cluster.records(0)]
    assert list(dict.fromkeys(taken)) == values, "in order, whatever went again"
    await writer.close()


async def test_a_partition_whose_batches_are_refused_disturbs_no_other(kafka: KafkaNode) -> None:
    """Again and again, as the path does it: what the others have under way is neither lost nor sent twice."""
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(2)
    writer = KafkaResultWriter(cluster.kafka, 4 * MAX_MESSAGE_BYTES)
    refused = 0

    async def be_refused() -> None:
        nonlocal refused
        for _ in range(5):
            with contextlib.suppress(DependencyUnavailable):
                await writer.write(0, [Message(None, b"x" * 2 * MAX_MESSAGE_BYTES, ())])
            refused += 1

    refusing = asyncio.create_task(be_refused())
    numbers = []
    while not refusing.done():
        numbers.append(b"%d" % len(numbers))
        await writer.write(1, [Message(None, numbers[-1], ())])
    await writer.write(0, [Message(None, b"small", ())])
    assert refused == 5
    assert [record.value for record in await cluster.records(1)] == numbers
    assert [record.value for record in await cluster.records(0)] == [b"small"]
    await writer.close()


async def until_taken(writer: KafkaResultWriter, partition: int, messages: list[Message]) -> None:
    """As the path does it: the same again until it is acknowledged."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(DependencyUnavailable):
                await writer.write(partition, messages)
                return
            await asyncio.sleep(0.1)


async def test_nothing_can_begin_between_the_clients_answer_and_receive(cluster: BrokerCluster) -> None:
    """A revoke that is due in the very next step of the loop finds the records received already."""
    source, receiver = cluster.source(), Receiver()
    receiver.revoke_seconds = 1
    await joined(source, receiver, 2)
    await cluster.publish(0, [b"x"])
    answer_of = source._consumer.getmany
    revoking = []

    def begin_to_revoke() -> None:
        revoking.append(source.on_partitions_revoked(set(source.assignment())))
        revoking[-1].send(None)

    async def getmany(*partitions: ClientPartition, **bounds: int) -> dict[ClientPartition, Any]:
        answer: dict[ClientPartition, Any]
        answer = await answer_of(*partitions, **bounds)
        if answer:
            asyncio.get_running_loop().call_soon(begin_to_revoke)
        return answer

    source._consumer.getmany = getmany
    await fetch_until(source, receiver, lambda: bool(revoking))
    revoking[0].close()
    assert receiver.revocations == 1
    assert [record.value for record in receiver.records] == [b"x"]
    assert receiver.out_of_turn == []


async def test_a_commit_ends_with_its_assignment(cluster: BrokerCluster) -> None:
    """Tried again later, it would go out with another assignment's generation and take the offset back."""
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 2)
    source._consumer.commit = lambda offsets: asyncio.sleep(60)
    committing = asyncio.create_task(source.commit({TopicPartition(cluster.topic, 0): 1}))
    await asyncio.sleep(0)
    await source.on_partitions_revoked(set(source.assignment()))
    with pytest.raises(PartitionLost, match="the assignment ended"):
        await committing
