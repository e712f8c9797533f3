"""Committed offsets on topics that are idle, full of holes, growing, or shorter than the group remembers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from consumer.records import TopicPartition
from producer_tools.connections.kafka import Brokers
from producer_tools.kafka import open_reader, read_spans, spans_of
from tests.integration.cases.case import PARTITIONS, Case, MakeCase, id_of, request, requests, source_offset
from tests.services.worker import WorkerProcess

pytestmark = pytest.mark.kafka

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
}


@asynccontextmanager
async def administration(case: Case) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=case.kafka.bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def comes_and_goes(case: Case) -> None:
    """A member of the group that gets partitions, reads nothing and leaves: two rebalances."""
    guest = AIOKafkaConsumer(
        case.place.topics.requests,
        bootstrap_servers=case.kafka.bootstrap_servers,
        group_id=case.place.name,
        enable_auto_commit=False,
        partition_assignment_strategy=(StickyPartitionAssignor,),
    )
    await guest.start()
    await guest.stop()


def events_of(worker: WorkerProcess, name: str) -> list[dict[str, object]]:
    return [event for event in worker.events() if event.get("event") == name]


async def test_an_idle_topic_has_all_its_offsets_committed_at_once_and_never_beyond_its_end(
    make_case: MakeCase,
) -> None:
    """Through many rebalances, with a record now and then. Who scales by lag needs an offset for each partition."""
    case = await make_case(settings={"kafka.heartbeat_interval_seconds": 0.2})
    worker = await case.started()
    await case.offsets.until(lambda now: now == dict.fromkeys(range(PARTITIONS), 0), "all committed", 10)
    async with case.followed() as offsets:
        for turn in range(5):
            await comes_and_goes(case)
            await case.publish([request(f"id-{turn}")], turn % PARTITIONS)
            await case.until_all_committed()
            ends = await case.place.ends(case.place.topics.requests)
            assert all(offset <= ends[partition] for partition, offset in offsets.latest.items())
    assert offsets.went_back == []
    assert events_of(worker, "skipped") == []
    await case.verified()
    assert await worker.stop() == 0


async def test_holes_in_the_offsets_hold_up_nothing_and_the_committed_offset_reaches_the_end(
    make_case: MakeCase,
) -> None:
    """Aborted transactions, their markers, and what compaction removed before somebody ended it."""
    case = await make_case(2, configs={"requests": COMPACTED})
    await publish_mostly_aborted(case, aborted=10_000)
    await case.publish([request(f"old-{number}") for number in range(30)], partition=1)
    await compacted(case, partition=1, below=30)
    async with administration(case) as admin:
        topic = ConfigResource(ConfigResourceType.TOPIC, case.place.topics.requests, {"cleanup.policy": "delete"})
        await admin.alter_configs([topic])
    worker = await case.started()
    await case.until_all_committed()
    await case.publish([request("after")], partition=1)
    await case.until_all_committed()
    answered = {id_of(result) for result in await case.results(2)}
    assert {"id-0", "after"} <= answered
    assert len(answered) < 30
    assert await worker.stop() == 0


async def publish_mostly_aborted(case: Case, aborted: int) -> None:
    """To partition 0: many aborted records, one that counts, and another aborted one behind it."""
    topic = case.place.topics.requests
    servers = case.kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=case.place.name, linger_ms=5) as producer:
        for count, commits in ((aborted, False), (1, True), (1, False)):
            await producer.begin_transaction()
            for number in range(count):
                await producer.send(topic, request(f"id-{number}"), key=b"%d" % number, partition=0)
            await producer.flush()
            await (producer.commit_transaction() if commits else producer.abort_transaction())


async def compacted(case: Case, partition: int, below: int) -> None:
    """Append until compaction has left fewer than so many records."""
    async with asyncio.timeout(60), open_reader(Brokers(case.kafka.bootstrap_servers)) as reader:
        for turn in range(1_000):
            await case.publish([request(f"turn-{turn}")], partition)
            spans = await spans_of(reader, case.place.topics.requests)
            [place] = [one for one in spans if one.partition == partition]
            left = sum([len(records) async for records in read_spans(reader, {place: spans[place]})])
            if left < below:
                return
            await asyncio.sleep(0.2)
    raise AssertionError


async def test_partitions_that_are_added_are_read_from_their_first_record(make_case: MakeCase) -> None:
    case = await make_case(2)
    topics = case.place.topics
    worker = await case.started()
    await case.publish(requests(5))
    await case.results(5)
    async with administration(case) as admin:
        for topic in (topics.results, topics.dead_letters, topics.requests):
            await admin.create_partitions({topic: NewPartitions(4)})
    for partition in range(4):
        await case.publish(requests(5, first=100 * (partition + 1)), partition)
    await case.results(25)
    await case.until_all_committed()
    await case.verified()
    assert await worker.stop() == 0


async def test_what_retention_removes_before_it_is_read_is_told_and_what_is_left_is_answered(
    make_case: MakeCase,
) -> None:
    """Stopped workers, records past the committed offset deleted; then with no policy, and with the default."""
    case = await make_case(1)
    worker = await case.started("before")
    await case.publish(requests(5))
    await case.until_all_committed()
    assert await worker.stop() == 0
    await case.publish(requests(10, first=5))
    async with administration(case) as admin:
        await admin.delete_records({TopicPartition(case.place.topics.requests, 0): RecordsToDelete(9)})

    refusing = case.worker("none", {"kafka.auto_offset_reset": "none"})
    refusing.spawn()
    assert await refusing.wait() == 2
    [stopped] = events_of(refusing, "stopped")
    assert "from offset 5 to 8" in str(stopped["reason"])
    assert "kafka.auto_offset_reset is none" in str(stopped["reason"])
    assert case.offsets.latest == {0: 5}

    worker = await case.started("earliest")
    results = await case.results(11)
    await case.until_all_committed()
    assert [source_offset(result) for result in results] == [*range(5), *range(9, 15)]
    assert await worker.stop() == 0
    [skipped] = events_of(worker, "skipped")
    assert (skipped["skipped_records"], skipped["level"]) == (4, "error")
    [totals] = events_of(worker, "totals")
    assert totals["skipped_records"] == 4


async def test_a_codec_that_cannot_be_read_is_refused_before_the_first_record(
    make_case: MakeCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = await make_case(1)
    hiding = case.folder / "hiding"
    hiding.mkdir()
    (hiding / "cramjam.py").write_text("raise ImportError('not installed')\n")
    monkeypatch.setenv("PYTHONPATH", str(hiding))
    worker = case.worker()
    worker.spawn()
    assert await worker.wait() == 2
    [refused] = events_of(worker, "refused to start")
    assert "cannot decompress snappy, lz4, zstd: pip install 'aiokafka[snappy,lz4,zstd]' lz4 zstandard" in str(
        refused["reason"]
    )
