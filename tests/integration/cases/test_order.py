"""Order, watermark and flow control, seen from outside."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka import ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient

from tests.chaos.drill import relayed_listener
from tests.chaos.relay import Relay, Way
from tests.integration.cases.case import CATCH_UP_SECONDS, PARTITIONS, Case, MakeCase, request, requests, source_offset
from tests.services.kafka import KafkaNode
from tests.services.process import free_port
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

pytestmark = pytest.mark.kafka

COMMIT_SECONDS = 0.2
"""The worker's default period."""
MEBIBYTE = 1024 * 1024
DOCUMENT = "a-word-of-20-letters " * 200
"""4 kB."""


@pytest_asyncio.fixture(scope="module")
async def relayed_kafka(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[KafkaNode, Relay, str]]:
    """A broker that creates the topics it is asked for, a relay to it, and the relay's address."""
    relayed_port = free_port(count=2)
    relay_port = relayed_port + 1
    node = KafkaNode(tmp_path_factory.mktemp("relayed-kafka"))
    node.properties |= {"auto.create.topics.enable": "true", "group.min.session.timeout.ms": "1000"}
    node.properties |= relayed_listener(node.port, relayed_port, relay_port)
    await node.start()
    async with Relay(relay_port, relayed_port) as relay:
        yield node, relay, f"127.0.0.1:{relay_port}"
    await node.kill()


def requested_ms(result: ConsumerRecord) -> int:
    """When the request was written."""
    return int(json.loads(result.value)["source"]["timestamp_ms"])


def resident_bytes(worker: WorkerProcess) -> int:
    """RSS of the process."""
    pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_what_is_scored_behind_a_slow_request_is_neither_written_nor_committed_before_it(make_case: MakeCase):
    """Killed while one request is in its engine, a worker leaves that one and all behind it to the next.

    The deadline of the one passes meanwhile, so that the next owner has an answer too.
    """
    deadline_seconds = 5
    case = await make_case()
    worker = await case.started("a")
    await case.publish(requests(10))
    await case.offsets.until(lambda committed: committed.get(0) == 10, "what is before it is committed", 60)
    held = request("held", "!hold", timeout_ms=1000 * deadline_seconds)
    await case.publish([held, *requests(989, first=11)])
    passed = asyncio.create_task(asyncio.sleep(deadline_seconds))
    await case.publish(requests(1, first=2000), partition=1)
    await case.offsets.until(lambda committed: committed.get(1) == 1, "the engine has done what came later", 60)
    await asyncio.sleep(2 * COMMIT_SECONDS)
    await case.offsets.look()
    assert case.offsets.latest[0] == 10
    assert len(await case.results(11)) == 11
    worker.send(signal.SIGKILL)
    await worker.wait()
    await passed
    successor = await case.started("b")
    await case.until_all_committed()
    assert await successor.stop() == 0
    assert (await case.verified()).tally.duplicates == 0
    results = [result for result in await case.results(1001) if result.partition == 0]
    assert [source_offset(result) for result in results] == list(range(1000))


async def test_a_quiet_partition_waits_for_what_is_in_the_engine_and_not_for_a_hot_one(make_case: MakeCase):
    """Ten requests beside a backlog are answered after the steps under way and their own."""
    step_seconds, step_sequences = 0.5, 16
    engine = {
        "engine.max_num_seqs": step_sequences,
        "engine.scripted_seconds_per_step": step_seconds,
        "micro_batch.max_records": step_sequences,
    }
    case = await make_case(2, settings=engine)
    await case.publish(requests(2000), partition=0)
    worker = await case.started()
    await case.results(2 * step_sequences)
    await case.publish(requests(10, first=2000), partition=1)
    await case.offsets.until(lambda committed: committed.get(1) == 10, "the quiet one is answered", CATCH_UP_SECONDS)
    written = await case.place.ends(case.place.topics.results)
    assert written[0] < 1000, "the hot partition has far to go"
    results = await case.results(sum(written.values()))
    quiet = [result for result in results if result.partition == 1]
    arrived_ms, answered_ms = min(map(requested_ms, quiet)), max(result.timestamp for result in quiet)
    hot = [result for result in results if result.partition == 0 and arrived_ms < result.timestamp < answered_ms]
    # Up to three steps were in the engine, one is shared; on a busy machine the way from Kafka takes up to two more.
    assert len(hot) <= 6 * step_sequences, "a backlog of 2000 is not waited for"
    assert await worker.stop() == 0


async def test_memory_stays_flat_while_a_dependency_holds_a_long_backlog(make_case: MakeCase, tmp_path: Path):
    """What a frozen Redis holds up waits in Kafka; when Redis goes on, so does everything."""
    memory_bytes, fetch_bytes, records_per_partition = 8 * MEBIBYTE, MEBIBYTE // 4, 3000
    redis = RedisNode(tmp_path / "redis")
    await redis.start()
    limits = {"limits.memory_bytes": memory_bytes, "kafka.max_partition_fetch_bytes": fetch_bytes}
    case = await make_case(cache=redis, settings=limits)
    worker = await case.started()
    await case.publish(requests(1))
    await case.until_all_committed()
    at_rest_bytes = resident_bytes(worker)
    redis.freeze()
    for partition in range(PARTITIONS):
        await case.publish(requests(records_per_partition, DOCUMENT, first=1), partition)
    backlog_bytes = PARTITIONS * records_per_partition * len(DOCUMENT)
    await worker.wait_for_event("held", CATCH_UP_SECONDS)
    await asyncio.sleep(2)
    # Beside what is charged: what the client has fetched of each partition, raw and decoded, and the heap's own holes.
    most_bytes = memory_bytes + 4 * PARTITIONS * fetch_bytes + 8 * MEBIBYTE
    assert resident_bytes(worker) - at_rest_bytes < most_bytes < backlog_bytes / 2
    redis.thaw()
    await case.until_all_committed()
    assert resident_bytes(worker) - at_rest_bytes < most_bytes
    assert await worker.stop() == 0
    await case.verified()
    await redis.stop()


async def test_a_partition_without_room_is_not_fetched_twice(
    make_case: MakeCase, relayed_kafka: tuple[KafkaNode, Relay, str]
):
    """A backlog of many times the memory that it may take comes over the network once."""
    kafka, relay, address = relayed_kafka
    small = {"limits.memory_bytes": 4 * MEBIBYTE, "kafka.bootstrap_servers": address}
    case = await make_case(kafka=kafka, settings=small)
    records = 1200
    for partition in range(PARTITIONS):
        await case.publish(requests(records, DOCUMENT, first=partition * records), partition)
    worker = await case.started()
    await case.until_all_committed()
    assert await worker.stop() == 0
    topic_bytes = PARTITIONS * records * len(DOCUMENT)
    assert topic_bytes < relay.passed_bytes[Way.FROM_TARGET] < 1.5 * topic_bytes
    await case.verified()


async def test_a_missing_topic_is_named_and_not_created_even_by_a_broker_that_would(
    make_case: MakeCase, relayed_kafka: tuple[KafkaNode, Relay, str]
):
    """It would have one partition, and the results no order."""
    case = await make_case(kafka=relayed_kafka[0])
    missing = f"{case.place.name}.missing"
    worker = case.worker("a", {"kafka.result_topic": missing})
    worker.spawn()
    assert await worker.wait() == 2
    refusal = str((await worker.wait_for_event("refused to start"))["reason"])
    assert missing in refusal
    assert f"--create --topic {missing} --partitions {PARTITIONS}" in refusal
    assert missing not in await topic_names(case)


async def topic_names(case: Case) -> list[str]:
    """Of all topics on the broker."""
    admin = AIOKafkaAdminClient(bootstrap_servers=case.kafka.bootstrap_servers)
    await admin.start()
    try:
        return list(await admin.list_topics())
    finally:
        await admin.close()
