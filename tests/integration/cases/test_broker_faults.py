"""A broker that is slow, refuses, or loses its answers to one kind of request, and topics that are not there."""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupLoadInProgressError, RebalanceInProgressError

from tests.integration.cases.case import (
    DRAIN_SECONDS,
    PARTITIONS,
    Case,
    MakeCase,
    id_of,
    request,
    requests,
    source_offset,
)
from tests.services.kafka import create_topics
from tests.services.kafka_proxy import Api, Fault, Hold, KafkaProxy
from tests.services.probe import Probe

pytestmark = pytest.mark.kafka

STRIKES_SECONDS = 30.0
"""By then a fault has struck."""
REBALANCE_SECONDS = 15
JOINING = {
    "kafka.rebalance_timeout_seconds": REBALANCE_SECONDS,
    "kafka.request_timeout_seconds": REBALANCE_SECONDS + 5,
    "shutdown.revoke_seconds": 3,
}
"""Time enough for a request of two seconds to be finished and committed in a revoke."""
FROZEN_SECONDS = 3.0
CALM_PER_SECOND = 20
"""Questions for metadata of all clients of one worker."""

Strike = Callable[[KafkaProxy, str, ExitStack], Fault]
COMMIT_FAULTS: dict[str, tuple[Strike, int]] = {
    # The fault, and how many of the revoked requests the next owner may then answer again.
    "refused for a rebalance": (
        lambda proxy, group, _: proxy.refuse_commit(RebalanceInProgressError, group),
        4,
    ),
    "refused while the coordinator loads": (
        lambda proxy, group, _: proxy.refuse_commit(GroupLoadInProgressError, group),
        0,
    ),
    "not answered for three seconds": (
        lambda proxy, group, held: held.enter_context(proxy.hold(Api.OFFSET_COMMIT, group)),
        4,
    ),
}


@pytest.mark.parametrize(("strike", "repeated"), COMMIT_FAULTS.values(), ids=COMMIT_FAULTS)
async def test_a_commit_that_fails_in_a_revoke_neither_blocks_the_rebalance_nor_stops_anyone(
    make_case: MakeCase, kafka_proxy: KafkaProxy, strike: Strike, repeated: int
):
    """One more worker joins while every partition has a request in the engine: that one is finished and committed."""
    case = await make_case(settings=JOINING | {"kafka.bootstrap_servers": kafka_proxy.address})
    group = case.place.name
    first = await case.started("first")
    await publish_everywhere(case, "before")
    await case.until_all_committed()
    with kafka_proxy.hold(Api.JOIN_GROUP, group) as joining:
        second = case.worker("second")
        second.spawn()
        await struck(joining)
        await publish_everywhere(case, "in-the-engine", "!wait !wait")
        held = ExitStack()
        fault = strike(kafka_proxy, group, held)
    began = time.monotonic()
    async with case.followed() as offsets:
        await struck(fault)
        if isinstance(fault, Hold):
            await asyncio.sleep(FROZEN_SECONDS)
        held.close()
        await publish_everywhere(case, "after")
        await case.until_all_committed(REBALANCE_SECONDS)
        assert time.monotonic() - began < REBALANCE_SECONDS
    assert not offsets.went_back
    audit = await case.verified()
    assert audit.tally.duplicates <= repeated
    for worker in (first, second):
        assert worker.exit_code is None
        assert await worker.stop() == 0


async def publish_everywhere(case: Case, name: str, document: str = "some words") -> None:
    """One request on each partition."""
    for partition in range(PARTITIONS):
        await case.publish([request(f"{name}-{partition}", document)], partition)


async def struck(fault: Fault) -> None:
    async with asyncio.timeout(STRIKES_SECONDS):
        await fault.struck.wait()


async def test_what_stands_behind_a_slow_dead_letter_is_not_committed_before_it(
    make_case: MakeCase, kafka_proxy: KafkaProxy
):
    case = await make_case(1, settings={"kafka.bootstrap_servers": kafka_proxy.address})
    worker = await case.started()
    async with case.followed() as offsets:
        with kafka_proxy.hold(Api.PRODUCE, case.place.topics.dead_letters) as slow:
            await case.publish([*requests(5), request("bad", "!reject"), *requests(45, first=6)])
            await struck(slow)
            await case.results(5)
            await asyncio.sleep(FROZEN_SECONDS)
            await offsets.look()
            assert offsets.latest.get(0, 0) <= 5
        await case.until_all_committed()
    assert not offsets.went_back
    [letter] = await case.dead_letters(1)
    assert source_offset(letter) == 5
    results = await case.results(51)
    assert [source_offset(result) for result in results] == list(range(51)), "in order, once each"
    await case.verified()
    assert await worker.stop() == 0


async def test_an_answer_that_is_lost_repeats_nothing(make_case: MakeCase, kafka_proxy: KafkaProxy):
    """The broker has taken the results when the connection is cut: sent again, it knows them and keeps them once."""
    case = await make_case(1, settings={"kafka.bootstrap_servers": kafka_proxy.address, "limits.chunk_records": 10})
    worker = await case.started()
    lost = kafka_proxy.lose_answer(Api.PRODUCE, case.place.topics.results)
    await case.publish(requests(100))
    await struck(lost)
    await case.until_all_committed()
    await case.verified()
    assert [source_offset(result) for result in await case.results(100)] == list(range(100)), "in order, once each"
    assert await worker.stop() == 0


async def test_without_its_dead_letter_topic_a_partition_is_held_by_name_and_goes_on_when_there_is_one(
    make_case: MakeCase, kafka_proxy: KafkaProxy, free_port: int
):
    """Others flow, nothing passes the bad request, and the broker is not hammered; then it is a dead letter once."""
    quick = {"kafka.bootstrap_servers": kafka_proxy.address, "kafka.delivery_timeout_seconds": 1.5}
    case = await make_case(settings=quick)
    worker, probe = await case.started(settings={"health.port": free_port}), Probe(free_port)
    await probe.until_ready()
    await delete_topic(case, case.place.topics.dead_letters)
    async with case.followed() as offsets:
        await case.publish([*requests(3), request("bad", "!reject"), *requests(3, first=4)])
        held = await probe.until("/readyz", lambda answer: answer.status == 503, "unready")
        assert held.conditions == {"lane_held"}
        assert f"dead-letter topic holds <Lane {case.place.topics.requests}[0]" in held.text
        await case.publish(requests(20, first=10), partition=1)
        await offsets.until(lambda now: now.get(1) == 20, "the other partition is done", 30)
        before, began = kafka_proxy.requests[Api.METADATA], time.monotonic()
        await asyncio.sleep(FROZEN_SECONDS)
        assert kafka_proxy.requests[Api.METADATA] - before < CALM_PER_SECOND * (time.monotonic() - began)
        assert offsets.latest.get(0, 0) <= 3
        await create_topics(case.kafka.bootstrap_servers, {case.place.topics.dead_letters: PARTITIONS})
        await case.until_all_committed()
    assert not offsets.went_back
    await probe.until_ready()
    [letter] = await case.dead_letters(1)
    assert source_offset(letter) == 3
    results = [result for result in await case.results(27) if result.partition == 0]
    assert [source_offset(result) for result in results] == list(range(7)), "in order, once each"
    assert await worker.stop() == 0


async def delete_topic(case: Case, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=case.kafka.bootstrap_servers)
    await admin.start()
    await admin.delete_topics([topic])
    await admin.close()


async def test_a_deleted_request_topic_does_not_keep_a_worker_from_leaving(
    make_case: MakeCase, kafka_proxy: KafkaProxy, free_port: int
):
    """What was in the engine is answered, though nobody takes its commit any more. The broker is not hammered."""
    case = await make_case(settings={"kafka.bootstrap_servers": kafka_proxy.address, "health.port": free_port})
    worker = await case.started()
    await case.publish(requests(1), partition=1)
    await case.until_all_committed()
    before = kafka_proxy.requests[Api.METADATA]
    await case.publish([request("last", "!wait !wait")])
    await Probe(free_port).until_in_engine()
    await delete_topic(case, case.place.topics.requests)
    worker.send(signal.SIGTERM)
    began = time.monotonic()
    assert await worker.wait(DRAIN_SECONDS + 5) == 0
    assert kafka_proxy.requests[Api.METADATA] - before < CALM_PER_SECOND * (1 + time.monotonic() - began)
    assert "commit refused" in {event["event"] for event in worker.events()}
    assert {id_of(result) for result in await case.results(2)} == {"id-0", "last"}
