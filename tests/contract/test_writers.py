"""What every `ResultWriter` and `DeadLetterWriter` keeps to."""

import asyncio

import pytest

from consumer.errors import DependencyUnavailable
from consumer.records import Message
from schemas.headers import SOURCE_PARTITION
from tests.contract.clusters import MAX_MESSAGE_BYTES
from tests.contract.conftest import MakeCluster


def dead_letter(source_partition: int, key: bytes | None = None, value: bytes = b"v") -> Message:
    return Message(key, value, ((SOURCE_PARTITION, b"%d" % source_partition),))


async def test_a_batch_is_there_in_order_when_the_write_returns(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(2)
    await cluster.results().write(1, [Message(b"k", b"%d" % number, ()) for number in range(100)])
    assert [record.value for record in await cluster.records(1)] == [b"%d" % number for number in range(100)]
    assert await cluster.records(0) == []


async def test_bytes_headers_and_nulls_arrive_as_they_are(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    headers = (("a", b"\xff\x00"), ("a", None), ("", b""), ("\u00e9", b"2"))
    messages = [Message(b"\x00\xff", b"value", headers), Message(None, b"", ()), Message(b"", None, ())]
    await cluster.results().write(0, messages)
    found = await cluster.records(0)
    assert [Message(record.key, record.value, record.headers) for record in found] == messages


async def test_more_than_one_batch_can_hold_arrives_in_order(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    values = [b"%03d" % number + b"x" * (MAX_MESSAGE_BYTES // 3) for number in range(20)]
    await cluster.results().write(0, [Message(None, value, ()) for value in values])
    assert [record.value for record in await cluster.records(0)] == values


async def test_partitions_are_written_at_the_same_time_each_in_order(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(4)
    writer = cluster.results()

    async def write_all(partition: int) -> None:
        for chunk in range(10):
            await writer.write(partition, [Message(None, b"%d" % (10 * chunk + number), ()) for number in range(10)])

    await asyncio.gather(*(write_all(partition) for partition in range(4)))
    for partition in range(4):
        assert [record.value for record in await cluster.records(partition)] == [b"%d" % n for n in range(100)]


async def test_a_message_that_no_batch_can_hold_is_a_bug_and_nothing_is_held_up(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    writer = cluster.results()
    with pytest.raises(ValueError, match="bug"):
        await writer.write(0, [Message(None, b"x" * MAX_MESSAGE_BYTES, ())])
    await writer.write(0, [Message(None, b"next", ())])
    assert [record.value for record in await cluster.records(0)] == [b"next"]


async def test_a_partition_that_does_not_exist_holds_its_lane_only(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(1)
    writer = cluster.results()
    with pytest.raises(DependencyUnavailable, match="partition"):
        await writer.write(1, [Message(None, b"x", ())])
    await writer.write(0, [Message(None, b"x", ())])
    assert len(await cluster.records(0)) == 1


async def test_a_dead_letter_goes_to_the_partition_number_of_its_source(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(3)
    await cluster.dead_letters().write([dead_letter(partition, value=b"%d" % partition) for partition in (2, 0, 2, 1)])
    assert [[record.value for record in await cluster.records(partition)] for partition in range(3)] == [
        [b"0"],
        [b"1"],
        [b"2", b"2"],
    ]


async def test_a_dead_letter_without_a_partition_of_that_number_goes_by_its_key(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(3)
    letters = [dead_letter(source, key=b"key") for source in (3, 4, 99)] + [dead_letter(7), dead_letter(7)]
    await cluster.dead_letters().write(letters)
    counts: dict[bytes | None, list[int]] = {b"key": [], None: []}
    for partition in range(3):
        keys = [record.key for record in await cluster.records(partition)]
        for key, places in counts.items():
            places.append(keys.count(key))
    assert sorted(counts[b"key"]) == [0, 0, 3]
    assert sorted(counts[None]) == [0, 0, 2]


async def test_the_last_source_header_decides_because_requests_may_bring_one(new_cluster: MakeCluster) -> None:
    cluster = await new_cluster(3)
    letter = Message(None, b"v", ((SOURCE_PARTITION, b"not a number"), (SOURCE_PARTITION, b"2")))
    await cluster.dead_letters().write([letter])
    assert len(await cluster.records(2)) == 1
