"""Where the Kafka source reads on when the group has no offset, or the log does not have the group's."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import GroupAuthorizationFailedError, GroupLoadInProgressError
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.fetch import FetchRequest

from consumer.adapters import kafka_internals
from consumer.adapters.kafka_source import KafkaSource
from consumer.errors import DependencyUnavailable, SettingsInvalid
from consumer.records import TopicPartition
from consumer.sections import OffsetReset
from tests.contract.clusters import BrokerCluster, Receiver
from tests.contract.test_record_source import fetch_until, joined
from tests.services.kafka import KafkaNode


@pytest_asyncio.fixture
async def cluster(kafka: KafkaNode) -> AsyncIterator[BrokerCluster]:
    cluster = BrokerCluster(kafka.bootstrap_servers)
    await cluster.create(1)
    yield cluster
    await cluster.close()


def with_reset(cluster: BrokerCluster, reset: OffsetReset) -> TopicPartition:
    cluster.kafka = cluster.kafka.model_copy(update={"auto_offset_reset": reset})
    return TopicPartition(cluster.topic, 0)


async def delete_records(cluster: BrokerCluster, before: int) -> None:
    """What retention does, at once."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka.bootstrap_servers)
    await admin.start()
    await admin.delete_records({TopicPartition(cluster.topic, 0): RecordsToDelete(before)})
    await admin.close()


async def make_anew(cluster: BrokerCluster) -> None:
    """Delete the topic and create it again."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka.bootstrap_servers)
    await admin.start()
    await admin.delete_topics([cluster.topic])
    await admin.close()
    await cluster.create(1)


def slow_down_fetches(source: KafkaSource) -> None:
    """The client has its position long before it knows whether the log has it."""
    send = source._consumer._client.send

    async def slowly(node_id: int, request: object, **options: object) -> object:
        if isinstance(request, FetchRequest):
            await asyncio.sleep(0.3)
        return await send(node_id, request, **options)

    source._consumer._client.send = slowly


async def committed_then_left(cluster: BrokerCluster, offset: int) -> None:
    """A member of the group was here, read some and left."""
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await source.commit({TopicPartition(cluster.topic, 0): offset})
    await source.leave()


async def test_a_group_without_an_offset_begins_where_the_setting_says(cluster: BrokerCluster) -> None:
    await cluster.publish(0, [b"a", b"b"])
    await delete_records(cluster, 1)
    for reset, first in ((OffsetReset.EARLIEST, 1), (OffsetReset.LATEST, 2)):
        place = with_reset(cluster, reset)
        source, receiver = cluster.source(), Receiver()
        await joined(source, receiver, 1)
        await fetch_until(source, receiver, lambda: place in receiver.next_offsets)  # noqa: B023
        assert min(receiver.next_offsets[place], *(record.offset for record in receiver.records), 99) == first
        assert source.skipped_records == 0, "it has no claim to what was there before it"
        await source.leave()


@pytest.mark.parametrize("reset", [OffsetReset.EARLIEST, OffsetReset.LATEST])
async def test_what_retention_removed_is_counted_and_what_is_left_is_read(
    cluster: BrokerCluster, reset: OffsetReset
) -> None:
    await cluster.publish(0, [b"%d" % number for number in range(10)])
    await committed_then_left(cluster, 3)
    await delete_records(cluster, 8)
    place = with_reset(cluster, reset)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 2)
    assert receiver.values[place] == [b"8", b"9"]
    assert source.skipped_records == 5


async def test_what_retention_removes_while_its_partition_waits_is_counted(cluster: BrokerCluster) -> None:
    """No room for it, so nothing was asked of Kafka; the records that were fetched before are not lost."""
    await cluster.publish(0, [b"a", b"b"])
    source, receiver = cluster.source(), Receiver()
    place = TopicPartition(cluster.topic, 0)
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 1, room=1)
    await cluster.publish(0, [b"c", b"d", b"e"])
    await delete_records(cluster, 4)
    await fetch_until(source, receiver, lambda: receiver.next_offsets[place] == 5)
    assert receiver.values[place][-1] == b"e"
    assert source.skipped_records == 5 - len(receiver.records)
    assert source.hindrances() == {}


async def refuse_commits(_offsets: object) -> None:
    raise GroupAuthorizationFailedError


@pytest.mark.parametrize("reset", [OffsetReset.EARLIEST, OffsetReset.LATEST])
async def test_a_worker_whose_commits_were_never_taken_goes_on_where_it_was_when_it_is_assigned_again(
    cluster: BrokerCluster, reset: OffsetReset
) -> None:
    """The group has no offset, but the worker knows: what came meanwhile is jumped over by no policy."""
    place = with_reset(cluster, reset)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: place in receiver.next_offsets)
    await cluster.publish(0, [b"%d" % number for number in range(6)])
    await fetch_until(source, receiver, lambda: len(receiver.records) == 6)
    source._consumer.commit = refuse_commits
    with pytest.raises(DependencyUnavailable, match="GroupAuthorizationFailed"):
        await source.commit({place: 2})
    kafka_internals.rejoin(source._consumer)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 10)
    assert receiver.values[place][6:] == [b"2", b"3", b"4", b"5"]
    assert source.skipped_records == 0


async def test_what_retention_removes_of_a_group_without_an_offset_is_lost_from_where_its_worker_was(
    cluster: BrokerCluster,
) -> None:
    """And counted once; what was gone before it began is not its loss."""
    await cluster.publish(0, [b"%d" % number for number in range(10)])
    await delete_records(cluster, 1)
    place = with_reset(cluster, OffsetReset.EARLIEST)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 9)
    assert source.skipped_records == 0
    source._consumer.commit = refuse_commits
    with pytest.raises(DependencyUnavailable, match="GroupAuthorizationFailed"):
        await source.commit({place: 3})
    await delete_records(cluster, 8)
    for turn in (1, 2):
        kafka_internals.rejoin(source._consumer)
        await fetch_until(source, receiver, lambda: len(receiver.records) == 9 + 2 * turn)  # noqa: B023
        assert receiver.values[place][-2:] == [b"8", b"9"]
        assert source.skipped_records == 5


async def test_without_a_policy_a_loss_ends_the_process_and_names_the_offsets(cluster: BrokerCluster) -> None:
    await cluster.publish(0, [b"x"] * 10)
    await committed_then_left(cluster, 3)
    await delete_records(cluster, 8)
    with_reset(cluster, OffsetReset.NONE)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    with pytest.raises(SettingsInvalid, match=r"offset 3 to 7 before it was read, and kafka.auto_offset_reset is none"):
        await fetch_until(source, receiver, lambda: False)
    assert receiver.records == []


async def test_an_offset_beyond_the_end_of_the_log_begins_at_its_beginning_and_is_told_as_such(
    cluster: BrokerCluster,
) -> None:
    await cluster.publish(0, [b"new"])
    await committed_then_left(cluster, 5)
    source, receiver = cluster.source(), Receiver()
    place = TopicPartition(cluster.topic, 0)
    slow_down_fetches(source)
    with structlog.testing.capture_logs() as logged:
        await joined(source, receiver, 1)
        await fetch_until(source, receiver, lambda: len(receiver.records) == 1)
    assert [record.value for record in receiver.records] == [b"new"]
    assert source.skipped_records == 0
    [told] = [line["reason"] for line in logged if line["event"] == "skipped"]
    assert "ends below offset 5" in told
    assert "the topic was made anew" in told
    assert receiver.next_offsets[place] == 1
    assert receiver.revocations == 0


async def test_a_topic_made_anew_under_a_member_begins_with_a_new_assignment(cluster: BrokerCluster) -> None:
    """Its lane counts on offsets that grow."""
    place = TopicPartition(cluster.topic, 0)
    await cluster.publish(0, [b"old"] * 5)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 5)
    await source.commit({place: 5})
    await make_anew(cluster)
    await cluster.publish(0, [b"new"])
    await fetch_until(source, receiver, lambda: len(receiver.records) == 6)
    assert receiver.values[place][-1] == b"new"
    assert receiver.next_offsets[place] == 1
    assert receiver.revocations >= 1
    assert receiver.out_of_turn == []


async def test_a_log_that_lost_its_end_under_a_member_begins_with_a_new_assignment(cluster: BrokerCluster) -> None:
    """As after an unclean election. Here the member is put beyond the end instead."""
    place = TopicPartition(cluster.topic, 0)
    await cluster.publish(0, [b"a", b"b"])
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 2)
    assert receiver.revocations == 0
    source._consumer.seek(place, 50)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 4)
    assert receiver.values[place] == [b"a", b"b"] * 2
    assert receiver.revocations == 1
    assert receiver.out_of_turn == []


async def test_what_an_open_transaction_keeps_from_being_read_is_told_until_it_ends(cluster: BrokerCluster) -> None:
    """Plain records behind it wait with it; the lag up to the last stable offset is 0."""
    place = TopicPartition(cluster.topic, 0)
    await cluster.publish(0, [b"before"])
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 1)
    servers = cluster.kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=cluster.topic) as producer:
        await producer.begin_transaction()
        await (await producer.send(cluster.topic, b"in it", partition=0))
        await cluster.publish(0, [b"behind"] * 2)
        await fetch_until(source, receiver, lambda: (source.last_fetch(place) or (0, 0, 0))[1:] == (1, 4))
        assert await source.end_offsets() == {place: 1}
        assert len(receiver.records) == 1
        await producer.commit_transaction()
    await fetch_until(source, receiver, lambda: (source.last_fetch(place) or (0, 0, 0))[1:] == (5, 5))
    assert receiver.values[place] == [b"before", b"in it", b"behind", b"behind"]


async def test_a_coordinator_that_is_loading_has_not_forgotten_the_groups_offsets(cluster: BrokerCluster) -> None:
    """It answers without any offset and with an error for the whole, which the client does not look at."""
    await cluster.publish(0, [b"a", b"b", b"c"])
    await committed_then_left(cluster, 2)
    source, receiver = cluster.source(), Receiver()
    await source.join(receiver.assigned, receiver.revoked)
    client, loading = source._consumer._client, 3
    send = client.send

    async def answer(node_id: int, request: object, **options: object) -> object:
        nonlocal loading
        answer = await send(node_id, request, **options)
        if isinstance(request, OffsetFetchRequest) and loading:
            loading -= 1
            answer.topics, answer.error_code = [], GroupLoadInProgressError.errno
        return answer

    client.send = answer
    await fetch_until(source, receiver, lambda: bool(receiver.records))
    assert loading == 0
    assert [record.offset for record in receiver.records] == [2]
