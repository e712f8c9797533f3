"""What every `RecordSource` keeps to."""

import asyncio
import time
from collections.abc import Callable, ItemsView, Iterable
from functools import partial

import pytest

from consumer.errors import PartitionLost
from consumer.interfaces import RecordSource
from consumer.records import Fetched, TopicPartition
from tests.contract.clusters import Receiver
from tests.contract.conftest import MakeCluster
from tests.services.process import wait_until

PATIENCE_SECONDS = 30.0


async def fetch_until(source: RecordSource, receiver: Receiver, condition: Callable[[], bool], room: int = 100) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        wanted = dict.fromkeys(source.assignment(), room)
        assert await source.fetch(wanted, receiver.receive, 0.05) <= room * max(1, len(wanted))


async def joined(source: RecordSource, receiver: Receiver, partitions: int) -> None:
    await source.join(receiver.assigned, receiver.revoked)
    await fetch_until(source, receiver, lambda: len(source.assignment()) == partitions)


async def test_records_come_in_order_with_the_position_after_them(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(2)
    values = [b"%d" % number for number in range(250)]
    await cluster.publish(0, values)
    await cluster.publish(1, values)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 2)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 500)
    for partition in (0, 1):
        place = TopicPartition(cluster.topic, partition)
        assert receiver.values[place] == values
        assert receiver.next_offsets[place] == 250


async def test_a_partition_gives_no_more_than_there_is_room_for(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(2)
    for partition in (0, 1):
        await cluster.publish(partition, [b"x"] * 50)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 2)
    first, second = (TopicPartition(cluster.topic, partition) for partition in (0, 1))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(receiver.values.get(first, [])) < 50 and time.monotonic() < deadline:
        before = {place: len(receiver.values.get(place, [])) for place in (first, second)}
        await source.fetch({first: 3}, receiver.receive, 0.05)
        assert len(receiver.values.get(first, [])) - before[first] <= 3
    assert len(receiver.values[first]) == 50
    assert not receiver.values.get(second)


class OneAfterTheOther(dict[TopicPartition, int]):
    """Room for one partition's records; none for the others from when these are received."""

    def __init__(self, partitions: Iterable[TopicPartition], receiver: Receiver, room: int) -> None:
        super().__init__(dict.fromkeys(partitions, room))
        self._receiver, self._before = receiver, len(receiver.records)

    def __getitem__(self, partition: TopicPartition) -> int:
        return super().__getitem__(partition) if len(self._receiver.records) == self._before else 0

    def items(self) -> ItemsView[TopicPartition, int]:
        return ItemsView(self)


async def test_what_one_partition_has_taken_the_next_is_not_given(new_cluster: MakeCluster) -> None:
    """Whether the records were there before they are asked for, or come while the source waits for some."""
    cluster = await new_cluster(4)
    places = [TopicPartition(cluster.topic, partition) for partition in range(4)]
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 4)
    asked = asyncio.create_task(source.fetch(OneAfterTheOther(places, receiver, 10), receiver.receive, 5.0))
    for place in places:
        await cluster.publish(place.partition, [b"x"] * 10)
    assert await asked <= 10
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(receiver.records) < 40:
        assert time.monotonic() < deadline, "all of it comes in the end"
        assert await source.fetch(OneAfterTheOther(places, receiver, 10), receiver.receive, 0.05) <= 10
    assert {place: len(values) for place, values in receiver.values.items()} == dict.fromkeys(places, 10)


async def test_no_room_asks_nothing_and_no_partition_is_not_every_partition(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    await cluster.publish(0, [b"x"])
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    seen = len(receiver.records)
    assert await source.fetch({}, receiver.receive, 0.3) == 0
    assert len(receiver.records) == seen


async def test_the_position_moves_over_offsets_that_hold_no_record(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    await cluster.publish(0, [b"a"])
    await cluster.publish_aborted(0)
    await cluster.publish(0, [b"b"])
    await cluster.publish_aborted(0)
    source, receiver = cluster.source(), Receiver()
    place = TopicPartition(cluster.topic, 0)
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: receiver.next_offsets.get(place) == 6)
    assert receiver.values[place] == [b"a", b"b"]


async def test_what_the_broker_said_last_is_the_end_of_the_log_and_is_said_again_and_again(
    new_cluster: MakeCluster,
) -> None:
    cluster = await new_cluster(1)
    await cluster.publish(0, [b"a"] * 5)
    await cluster.publish_aborted(0)
    source, receiver = cluster.source(), Receiver()
    place = TopicPartition(cluster.topic, 0)
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: receiver.next_offsets.get(place) == 7)
    await fetch_until(source, receiver, lambda: said_last(source, place)[1:] == (7, 7))
    before = said_last(source, place)
    await fetch_until(source, receiver, lambda: said_last(source, place).answered_ms > before.answered_ms)
    await source.leave()
    assert source.last_fetch(TopicPartition(cluster.topic, 1)) is None


def said_last(source: RecordSource, place: TopicPartition) -> Fetched:
    fetched = source.last_fetch(place)
    assert fetched is not None
    return fetched


async def test_a_new_partition_tells_its_position_before_any_record(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    place = TopicPartition(cluster.topic, 0)
    await fetch_until(source, receiver, lambda: place in receiver.next_offsets)
    assert receiver.next_offsets[place] == 0
    assert receiver.values[place] == []


async def test_the_next_member_starts_at_the_committed_offset(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    await cluster.publish(0, [b"a", b"b", b"c"])
    place = TopicPartition(cluster.topic, 0)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    assert await source.committed(place) is None
    await fetch_until(source, receiver, lambda: len(receiver.records) == 3)
    await source.commit({place: 1})
    assert await source.committed(place) == 1
    await source.leave()

    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 2)
    assert receiver.values[place] == [b"b", b"c"]


async def test_a_commit_inside_revoked_is_taken(new_cluster: MakeCluster, request: pytest.FixtureRequest) -> None:
    if "embedded" in request.node.name:
        pytest.skip("noida-db refuses commits while the group rebalances; the work is then done twice")
    cluster = await new_cluster(2)
    for partition in (0, 1):
        await cluster.publish(partition, [b"x"] * 10)
    source, receiver = cluster.source(), Receiver()
    outcomes = []

    async def revoked(partitions: frozenset[TopicPartition]) -> None:
        await source.commit({partition: receiver.next_offsets[partition] for partition in partitions})
        outcomes.append(len(partitions))
        await receiver.revoked(partitions)

    await source.join(receiver.assigned, revoked)
    await fetch_until(source, receiver, lambda: len(receiver.records) == 20)
    other, other_receiver = cluster.source(), Receiver()
    joining = asyncio.create_task(joined(other, other_receiver, 1))
    await fetch_until(source, receiver, lambda: len(source.assignment()) == 1 and joining.done())
    await joining
    assert outcomes[0] == 2
    assert [await other.committed(TopicPartition(cluster.topic, partition)) for partition in (0, 1)] == [10, 10]
    assert len(receiver.records) == 20


async def test_a_commit_for_a_partition_that_went_to_another_is_refused(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(2)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 2)
    other, other_receiver = cluster.source(), Receiver()
    joining = asyncio.create_task(joined(other, other_receiver, 1))
    await fetch_until(source, receiver, lambda: len(source.assignment()) == 1 and joining.done())
    await joining
    [lost] = other.assignment()
    with pytest.raises(PartitionLost):
        await source.commit({lost: 0})


async def test_nothing_is_received_out_of_turn_through_many_rebalances(new_cluster: MakeCluster) -> None:
    """Members come and go while records flow: never a record before `assigned` or after `revoked` began."""
    cluster = await new_cluster(4)
    published = 0
    publishing = asyncio.Event()

    async def publish() -> None:
        nonlocal published
        while not publishing.is_set():
            for partition in range(4):
                await cluster.publish(partition, [b"%d" % published])
            published += 1
            await asyncio.sleep(0.01)

    source, receiver = cluster.source(), Receiver()
    receiver.revoke_seconds = 0.1
    await joined(source, receiver, 4)
    stop = asyncio.Event()
    reading = asyncio.create_task(fetch_until(source, receiver, stop.is_set, room=3))
    writing = asyncio.create_task(publish())
    for turn in range(4):
        other, other_receiver = cluster.source(), Receiver()
        await joined(other, other_receiver, 2)
        if turn % 2:
            await fetch_until(other, other_receiver, partial(bool, other_receiver.records))
        await other.leave()
        assert other_receiver.out_of_turn == []
        await wait_until(lambda: len(source.assignment()) == 4, "the partitions came back")
    publishing.set()
    await writing
    await wait_until(lambda: min(receiver.next_offsets.values()) >= published, "all records were read")
    stop.set()
    await reading
    assert receiver.revocations >= 4
    assert receiver.out_of_turn == []


async def test_what_fails_in_a_listener_comes_out_of_fetch(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    source, receiver = cluster.source(), Receiver()

    async def broken(partitions: frozenset[TopicPartition]) -> None:
        raise RuntimeError("a bug in assigned")

    await source.join(broken, receiver.revoked)
    with pytest.raises(RuntimeError, match="a bug in assigned"):
        await fetch_until(source, receiver, lambda: False)


async def test_leaving_ends_a_fetch_that_waits(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    source, receiver = cluster.source(), Receiver()
    await joined(source, receiver, 1)
    waiting = asyncio.create_task(source.fetch(dict.fromkeys(source.assignment(), 1), receiver.receive, 2))
    await source.leave()
    async with asyncio.timeout(30):
        assert await waiting == 0
    assert source.assignment() == frozenset()
