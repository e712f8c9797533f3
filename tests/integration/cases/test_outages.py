"""The broker gone, or silent, or the worker busy for long: membership is kept, and leaving is bounded."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.integration.cases.case import PARTITIONS, MakeCase, request, requests
from tests.services.kafka import KafkaNode
from tests.services.kafka_proxy import Api, KafkaProxy
from tests.services.probe import Probe

pytestmark = pytest.mark.kafka

REQUEST_TIMEOUT_SECONDS = 7
SESSION_SECONDS = 6
"""Long enough that a busy machine alone ends none."""
IMPATIENT: dict[str, object] = {
    "kafka.session_timeout_seconds": SESSION_SECONDS,
    "kafka.rebalance_timeout_seconds": 2,
    "kafka.request_timeout_seconds": REQUEST_TIMEOUT_SECONDS,
    "shutdown.revoke_seconds": 0.2,
    "commit.timeout_seconds": 0.15,
}
"""The shortest request timeout that goes with the others."""
DRAIN_SECONDS = 3
LONG_TEXT_BYTES = 1_000_000
"""The longest that is tokenised; see limits.max_text_bytes."""
LONG_TEXTS = 40
LOOP_LAG_SECONDS = 2


async def test_fetches_that_are_never_answered_end_and_the_next_ones_are_made(
    make_case: MakeCase, kafka_proxy: KafkaProxy
):
    """For longer than the request timeout, while all other requests are answered: nobody rebalances."""
    case = await make_case(settings=IMPATIENT | {"kafka.bootstrap_servers": kafka_proxy.address})
    worker = await case.started()
    await case.publish(requests(10))
    await case.until_all_committed()
    joined = kafka_proxy.requests[Api.JOIN_GROUP]
    with kafka_proxy.hold(Api.FETCH, case.place.topics.requests) as silent:
        # A fetch that was under way may still bring what is published now.
        await silent.struck.wait()
        for partition in range(PARTITIONS):
            await case.publish(requests(10, first=100 * (partition + 1)), partition)
        await asyncio.sleep(REQUEST_TIMEOUT_SECONDS + 1)
        await case.offsets.look()
        assert sum(case.offsets.latest.values()) == 10
    await case.until_all_committed()
    assert kafka_proxy.requests[Api.JOIN_GROUP] == joined
    audit = await case.verified()
    assert audit.tally.duplicates == 0
    assert await worker.stop() == 0


async def test_a_worker_whose_broker_is_gone_leaves_within_its_budget(
    make_case: MakeCase, tmp_path: Path, free_port: int
):
    """With a request in the engine, whose result nobody takes any more."""
    kafka = KafkaNode(tmp_path / "kafka")
    await kafka.start()
    case = await make_case(1, kafka=kafka)
    worker = await case.started(
        settings={
            "kafka.session_timeout_seconds": SESSION_SECONDS,
            "shutdown.drain_seconds": DRAIN_SECONDS,
            "health.port": free_port,
        }
    )
    await case.publish(requests(5))
    await case.until_all_committed()
    await case.publish([request("last", "!wait !wait")])
    await Probe(free_port).until_in_engine()
    await kafka.kill()
    worker.send(signal.SIGTERM)
    assert await worker.wait(DRAIN_SECONDS + 10) == 1
    said = {event["event"]: event for event in worker.events()}
    assert "released unfinished" in said
    assert said["stopped"]["level"] == "error"
    assert "did not leave the group" in said["stopped"]["reason"]


async def test_commits_that_are_never_answered_are_one_on_its_way_and_nothing_that_nobody_retrieves(
    make_case: MakeCase, kafka_proxy: KafkaProxy, free_port: int
):
    """For longer than the request timeout, so that what was on its way fails. It is no refusal, and told as such."""
    patient = {"kafka.session_timeout_seconds": 4 * SESSION_SECONDS, "health.port": free_port}
    case = await make_case(1, settings=IMPATIENT | patient | {"kafka.bootstrap_servers": kafka_proxy.address})
    worker, probe = await case.started(), Probe(free_port)
    await case.publish(requests(5))
    await case.until_all_committed()
    commits = kafka_proxy.requests[Api.OFFSET_COMMIT]
    with kafka_proxy.hold(Api.OFFSET_COMMIT, case.place.name) as silent:
        await case.publish(requests(5, first=5))
        await silent.struck.wait()
        await probe.until("/readyz", lambda answer: answer.conditions == {"commits_unanswered"}, "named as what it is")
        await asyncio.sleep(REQUEST_TIMEOUT_SECONDS + 2)
    held = kafka_proxy.requests[Api.OFFSET_COMMIT] - commits
    assert held <= 2, "one until the request timeout, and one since"
    await case.publish(requests(5, first=10))
    await case.until_all_committed()
    await probe.until_ready()
    assert await worker.stop() == 0
    assert "never retrieved" not in worker.log.read_text()
    events = [event.get("event") for event in worker.events()]
    assert "commit not answered" in events
    assert "commit refused" not in events
    await case.verified()


async def test_texts_that_take_long_to_tokenise_cost_neither_the_membership_nor_the_event_loop(
    make_case: MakeCase, kafka_proxy: KafkaProxy, free_port: int
):
    case = await make_case(
        settings={
            "kafka.bootstrap_servers": kafka_proxy.address,
            "health.port": free_port,
            "health.loop_lag_seconds": LOOP_LAG_SECONDS,
            "kafka.session_timeout_seconds": SESSION_SECONDS,
        }
    )
    worker, probe = await case.started(), Probe(free_port)
    await probe.until_ready()
    joined = kafka_proxy.requests[Api.JOIN_GROUP]
    long_text = "word " * (LONG_TEXT_BYTES // 5 - 10)
    for number in range(LONG_TEXTS):
        await case.publish([request(f"long-{number}", f"{number} {long_text}")], number % PARTITIONS)
    committing = asyncio.create_task(case.until_all_committed())
    while not committing.done():
        assert (await probe.ask("/livez")).text == "ok\n"
        await asyncio.sleep(0.2)
    await committing
    assert kafka_proxy.requests[Api.JOIN_GROUP] == joined
    await case.verified()
    assert await worker.stop() == 0
