"""The whole worker with real vLLM: its engine's process is killed, and it goes on with a new one."""

import json
import os
import signal
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests.chaos.fleet import engine_process
from tests.conftest import CreateTopics
from tests.integration.test_worker_scripted import worker_settings
from tests.services.kafka import KafkaNode
from tests.services.process import wait_until
from tests.services.reading import read_topic
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

# Two starts of an engine.
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


async def test_a_killed_engine_is_replaced_in_place_and_nothing_is_lost_or_dead_lettered(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, minilm_embed: Path, tmp_path: Path
):
    names = await topics(kafka, requests=2, results=2, dead=2)
    worker = WorkerProcess(
        tmp_path,
        worker_settings(kafka, redis, names)
        | {
            "engine.kind": "vllm",
            "engine.model": minilm_embed,
            "engine.dtype": "float32",
            "engine.args": '{"enforce_eager": true}',
        },
    )
    await worker.start()
    await publish(kafka, names["requests"], 0, 40)
    await read_topic(kafka.bootstrap_servers, names["results"], 40)
    await publish(kafka, names["requests"], 40, 400)
    await wait_until(lambda: engine_process(worker.pid) is not None, "the engine has taken its name")
    os.kill(engine_process(worker.pid), signal.SIGKILL)
    results = await read_topic(kafka.bootstrap_servers, names["results"], 440, timeout_seconds=600)
    assert await worker.stop() == 0
    assert any(event["event"] == "engine restarted" for event in worker.events())
    answers = [json.loads(record.value) for record in results]
    assert {one["id"] for one in answers} == {f"e{number}" for number in range(440)}
    assert {one["status"] for one in answers} == {"ok"}
    for partition in (0, 1):
        offsets = [one["source"]["offset"] for one in answers if one["source"]["partition"] == partition]
        assert offsets == sorted(set(offsets))


async def publish(kafka: KafkaNode, topic: str, first: int, count: int) -> None:
    """Embed requests e<first> and on, over both partitions."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    for number in range(first, first + count):
        value = json.dumps({"id": f"e{number}", "task": "embed", "input": f"text number {number} of many"}).encode()
        await producer.send(topic, value, partition=number % 2)
    await producer.stop()
