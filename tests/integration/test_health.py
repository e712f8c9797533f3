"""/livez and /readyz of a worker process on Apache Kafka and Redis, as whoever probes it sees them."""

import asyncio
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests.conftest import CreateTopics
from tests.integration.test_worker_scripted import worker_settings
from tests.services.kafka import KafkaNode, create_topics
from tests.services.probe import Answer, Probe
from tests.services.process import free_port
from tests.services.reading import committed_offsets, read_topic, wait_committed
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

NAMES = {"requests": "requests", "results": "results", "dead": "dead"}
QUICK: dict[str, float] = {
    "health.stuck_seconds": 2,
    "kafka.session_timeout_seconds": 6,
    "kafka.heartbeat_interval_seconds": 0.5,
    "kafka.rebalance_timeout_seconds": 10,
    "kafka.request_timeout_seconds": 15,
    "kafka.delivery_timeout_seconds": 3,
    "commit.timeout_seconds": 0.5,
    "shutdown.revoke_seconds": 2,
    "shutdown.drain_seconds": 3,
}
"""Every time limit short, in the proportions that the settings ask for."""


@asynccontextmanager
async def probed(folder: Path, settings: Mapping[str, object]) -> AsyncIterator[tuple[WorkerProcess, Probe]]:
    """A running worker and its probe; it does not outlive the block."""
    port = free_port()
    worker = WorkerProcess(folder, {**QUICK, **settings, "health.host": "127.0.0.1", "health.port": port})
    worker.spawn()
    try:
        yield worker, Probe(port)
    finally:
        if worker.exit_code is None:
            worker.send(signal.SIGKILL)
            await worker.wait()


async def publish(kafka: KafkaNode, topic: str, *documents: str) -> None:
    """Score requests r0, r1 and so on, to partition 0."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    for number, document in enumerate(documents):
        request = {"id": f"r{number}", "task": "score", "query": "q", "document": document}
        await producer.send_and_wait(topic, json.dumps(request).encode(), partition=0)
    await producer.stop()


async def test_the_port_answers_before_kafka_does(redis: RedisNode, tmp_path: Path) -> None:
    """A broker that accepts connections and says nothing keeps the worker starting: alive, not ready."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {
            "kafka.bootstrap_servers": f"127.0.0.1:{silent.getsockname()[1]}",
            "redis.url": redis.url,
            "engine.kind": "scripted",
        }
        async with probed(tmp_path, settings) as (_, probe):
            answer = await probe.until("/readyz", lambda answer: True, "an answer")
            assert (answer.status, answer.text) == (503, "not_running: the worker is starting\n")
            assert await probe.ask("/livez") == Answer(200, "ok\n")
            told = json.loads((await probe.ask("/readyz", Accept="application/json")).text)
            assert told == {
                "ok": False,
                "reasons": [{"condition": "not_running", "detail": "the worker is starting"}],
            }


async def test_a_port_in_use_is_refused_at_once_and_the_fix_is_named(redis: RedisNode, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = {"health.host": "127.0.0.1", "health.port": port, "engine.kind": "scripted", "redis.url": redis.url}
        worker = WorkerProcess(tmp_path, settings)
        worker.spawn()
        assert await worker.wait() == 2
        refusal = await refused(worker)
        assert f"health.port is {port}" in refusal
        assert "set a free port" in refusal


async def refused(worker: WorkerProcess) -> str:
    """Why it refused to start."""
    return next(str(event["reason"]) for event in worker.events() if event["event"] == "refused to start")


@pytest.mark.parametrize("poison", ["!hold", "!die"])
async def test_a_request_that_the_engine_does_not_survive_costs_one_dead_letter_and_not_the_partition(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path, poison: str
) -> None:
    """Its engine is replaced once, the worker ends the second time, and the next worker knows what to suspect."""
    names = await topics(kafka, requests=1, results=1, dead=1)
    settings = worker_settings(kafka, redis, names)
    async with probed(tmp_path, settings) as (worker, probe):
        await probe.until_ready()
        await publish(kafka, names["requests"], "good")
        await read_topic(kafka.bootstrap_servers, names["results"], 1)
        await publish(kafka, names["requests"], poison, "good")
        assert await worker.wait() == 1
        assert [event["event"] for event in worker.events()].count("restarting the engine") == 1
        [end] = [event for event in worker.events() if event["event"] == "stopped" and "type" in event]
        assert end["type"] == "EngineDead"
    committed = await committed_offsets(kafka.bootstrap_servers, "group." + names["requests"], names["requests"])
    assert committed[0] in (1, 2), "alone in the engine from the beginning, its answer may have left the first worker"
    async with probed(tmp_path, settings) as (worker, _):
        await worker.wait_for_event("running")
        await wait_committed(kafka.bootstrap_servers, "group." + names["requests"], names["requests"], 3)
        assert await worker.stop() == 0
    answers: dict[bytes, str | None] = {}
    for result in await read_topic(kafka.bootstrap_servers, names["results"], 3):
        code = json.loads(result.value).get("error", {}).get("code")
        assert answers.setdefault(dict(result.headers)["scorestream-source-offset"], code) == code
    assert answers == {b"0": None, b"1": "engine_rejected", b"2": None}
    letters = await read_topic(kafka.bootstrap_servers, names["dead"], 1)
    assert {dict(letter.headers)["scorestream-source-offset"] for letter in letters} == {b"1"}


async def test_an_engine_that_hangs_is_replaced_and_the_request_that_silenced_it_is_known_in_the_end(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path
) -> None:
    """Nothing but a ping tells while no head has waited long: other requests are answered before and after."""
    names = await topics(kafka, requests=1, results=1, dead=1)
    # A restart is allowed as often as it takes, so one worker sees all of it.
    settings = worker_settings(kafka, redis, names) | {
        "engine.hang_seconds": 0.5,
        "engine.restart_period_seconds": 0.001,
        "health.stuck_seconds": 100,
    }
    async with probed(tmp_path, settings) as (worker, probe):
        await probe.until_ready()
        await publish(kafka, names["requests"], "good", "!hang", "good")
        results = await read_topic(kafka.bootstrap_servers, names["results"], 3)
        assert [event["event"] for event in worker.events()].count("engine restarted") == 3
        assert await worker.stop() == 0
    codes = [json.loads(result.value).get("error", {}).get("code") for result in results]
    assert codes == [None, "engine_rejected", None]


async def test_a_tokenizer_that_never_returns_makes_the_worker_not_live_and_then_ends_it(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path
) -> None:
    """Although its thread cannot be ended: whoever runs the worker gets an exit code, and starts another."""
    names = await topics(kafka, requests=1, results=1, dead=1)
    async with probed(tmp_path, worker_settings(kafka, redis, names)) as (worker, probe):
        await probe.until_ready()
        await publish(kafka, names["requests"], "!ponder " * 300)
        stuck = await probe.until("/livez", lambda answer: answer.status == 503, "not live")
        assert stuck.conditions == {"lane_stuck"}
        place = (names["requests"], 0, 0)
        assert logged_places(worker) == [("error", *place)], "before anyone could have ended it for its liveness"
        assert await worker.wait() == 1
        assert logged_places(worker) == [("error", *place)], "once"
        [end] = [event for event in worker.events() if event["event"] == "stopped"]
        assert (end["type"], f"{names['requests']}[0] at offset 0 " in str(end["reason"])) == ("PartitionStuck", True)


def logged_places(worker: WorkerProcess) -> list[tuple[object, ...]]:
    """Level, topic, partition and offset of each request that the log says to be stuck."""
    stuck = [event for event in worker.events() if event["event"] == "partition stuck"]
    return [tuple(event[name] for name in ("level", "topic", "partition", "offset")) for event in stuck]


async def test_without_redis_the_worker_is_unready_by_name_alive_and_comes_back(
    kafka: KafkaNode, topics: CreateTopics, tmp_path: Path
) -> None:
    names = await topics(kafka, requests=2, results=2, dead=1)
    redis = RedisNode(tmp_path / "redis")
    await redis.start()
    async with probed(tmp_path, worker_settings(kafka, redis, names)) as (worker, probe):
        await probe.until_ready()
        await redis.stop()
        await publish(kafka, names["requests"], "good")
        held = await probe.until("/readyz", lambda answer: answer.status == 503, "unready")
        assert held.conditions == {"lane_held"}
        assert f"redis holds <Lane {names['requests']}[0]" in held.text
        end = time.monotonic() + 3 * QUICK["health.stuck_seconds"]
        while time.monotonic() < end:
            assert (await probe.ask("/livez")).status == 200, "a dependency's outage kills nobody"
            await asyncio.sleep(0.2)
        await redis.start()
        await probe.until_ready()
        assert await worker.stop() == 0
    await redis.stop()


async def test_without_its_broker_the_worker_is_unready_and_alive_and_comes_back(
    redis: RedisNode, tmp_path: Path
) -> None:
    kafka = KafkaNode(tmp_path / "kafka")
    await kafka.start()
    await create_topics(kafka.bootstrap_servers, {"requests": 1, "results": 1, "dead": 1})
    async with probed(tmp_path, worker_settings(kafka, redis, NAMES)) as (worker, probe):
        await probe.until_ready()
        await kafka.kill()
        away = await probe.until("/readyz", lambda answer: answer.status == 503, "unready")
        assert away.conditions <= {"not_a_member", "commits_unanswered", "broker_away"}, "named as what it is"
        await probe.until("/readyz", lambda answer: "broker_away: " in answer.text, "the broker's absence is named")
        end = time.monotonic() + 3 * QUICK["health.stuck_seconds"]
        while time.monotonic() < end:
            assert (await probe.ask("/livez")).status == 200, "a broker's outage kills nobody"
            await asyncio.sleep(0.2)
        await kafka.start()
        await probe.until_ready()
        await publish(kafka, "requests", "good")
        await read_topic(kafka.bootstrap_servers, "results", 1)
        assert await worker.stop() == 0
    await kafka.kill()


async def test_a_rebalance_leaves_everyone_ready_and_a_worker_without_partitions_is_ready_too(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path
) -> None:
    names = await topics(kafka, requests=1, results=1, dead=1)
    settings = worker_settings(kafka, redis, names)
    async with probed(tmp_path / "a", settings) as (first, probe):
        await probe.until_ready()
        seen: list[Answer] = []

        async def watch() -> None:
            while True:
                seen.append(await probe.ask("/readyz"))
                await asyncio.sleep(0.02)

        watching = asyncio.create_task(watch())
        async with probed(tmp_path / "b", settings) as (second, other):
            await other.until_ready()
            assert await second.stop() == 0
        watching.cancel()
        await asyncio.wait([watching])
        assert len(seen) > 10
        assert {answer.text for answer in seen} == {"ok\n"}
        assert await first.stop() == 0


async def test_a_draining_worker_is_alive_and_unready_until_it_is_gone(
    kafka: KafkaNode, topics: CreateTopics, tmp_path: Path
) -> None:
    """Redis, which is away, makes the drain last as long as it may."""
    names = await topics(kafka, requests=1, results=1, dead=1)
    redis = RedisNode(tmp_path / "redis")
    await redis.start()
    async with probed(tmp_path, worker_settings(kafka, redis, names)) as (worker, probe):
        await probe.until_ready()
        await redis.stop()
        await publish(kafka, names["requests"], "good")
        await probe.until("/readyz", lambda answer: answer.conditions == {"lane_held"}, "held")
        worker.send(signal.SIGTERM)
        answer = await probe.until("/readyz", lambda answer: "lane_held" not in answer.conditions, "not held any more")
        assert answer.text == "not_running: the worker is draining\n"
        assert await probe.ask("/livez") == Answer(200, "ok\n")
        assert await worker.wait() == 0


async def test_a_frozen_worker_does_not_answer_and_is_alive_again_after(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path
) -> None:
    """What stood still while the process did is not stuck."""
    names = await topics(kafka, requests=1, results=1, dead=1)
    async with probed(tmp_path, worker_settings(kafka, redis, names)) as (worker, probe):
        await probe.until_ready()
        worker.send(signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await probe.ask("/livez", timeout_seconds=3)
        await publish(kafka, names["requests"], "good")
        worker.send(signal.SIGCONT)
        await probe.until("/livez", lambda answer: answer.status == 200, "alive")
        await read_topic(kafka.bootstrap_servers, names["results"], 1)
        await probe.until_ready()
        assert await worker.stop() == 0
