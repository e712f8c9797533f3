"""The servers of the tests do what the tests rely on."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.conftest import CreateTopics
from tests.services.embedded import EmbeddedNode
from tests.services.kafka import KafkaNode, create_topics
from tests.services.process import ServerProcess, ServiceFailed, is_alive, is_free, wait_until
from tests.services.redis import RedisNode

HOLDER = """
import asyncio, sys
from pathlib import Path
from tests.services.redis import RedisNode

async def main():
    node = RedisNode(Path(sys.argv[1]))
    await node.start()
    print(node.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def produce(bootstrap_servers: str, topic: str, values: list[bytes]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)
    finally:
        await producer.stop()


async def read(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.kafka
async def test_a_killed_kafka_comes_back_on_its_port_with_its_records(tmp_path: Path) -> None:
    node = KafkaNode(tmp_path)
    await node.start()
    try:
        await create_topics(node.bootstrap_servers, {"kept": 2})
        await produce(node.bootstrap_servers, "kept", [b"first", b"second"])
        await node.kill()
        await node.start()
        assert await read(node.bootstrap_servers, "kept", 2) == [b"first", b"second"]
    finally:
        await node.stop()
    assert is_free(node.port)


async def test_kafka_refuses_an_unknown_topic_instead_of_creating_it(kafka: KafkaNode) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=1000)
    await producer.start()
    try:
        with pytest.raises(KafkaError):
            await producer.send_and_wait("never-created", b"x")
        assert "never-created" not in (await producer.client.fetch_all_metadata()).topics()
    finally:
        await producer.stop()


async def test_topics_are_unique_to_a_test_and_have_the_partitions_asked_for(
    embedded: EmbeddedNode, topics: CreateTopics
) -> None:
    names = await topics(embedded, requests=3, results=5)
    admin = AIOKafkaAdminClient(bootstrap_servers=embedded.bootstrap_servers)
    await admin.start()
    try:
        described = await admin.describe_topics([names["requests"], names["results"]])
    finally:
        await admin.close()
    assert {topic["topic"]: len(topic["partitions"]) for topic in described} == {
        names["requests"]: 3,
        names["results"]: 5,
    }
    with pytest.raises(ServiceFailed, match="already exists"):
        await topics(embedded, requests=3)


@pytest.mark.redis
async def test_a_frozen_redis_answers_nobody_until_it_is_thawed(tmp_path: Path) -> None:
    node = RedisNode(tmp_path)
    await node.start()
    try:
        client = Redis.from_url(node.url, socket_timeout=0.3)
        await client.set("key", "value")
        node.freeze()
        with pytest.raises(RedisTimeoutError):
            await client.get("key")
        node.thaw()
        await node.wait_ready()
        assert await client.get("key") == b"value"
        await client.aclose()
    finally:
        await node.stop()


@pytest.mark.redis
async def test_a_restarted_redis_is_empty_unless_it_was_told_to_keep_its_data(tmp_path: Path) -> None:
    for options, after in (({}, None), ({"appendonly": "yes", "appendfsync": "always"}, b"value")):
        node = RedisNode(tmp_path / str(len(options)), options)
        await node.start()
        try:
            async with Redis.from_url(node.url) as before_the_kill:
                await before_the_kill.set("key", "value")
            await node.kill()
            await node.start()
            async with Redis.from_url(node.url) as after_the_start:
                assert await after_the_start.get("key") == after
        finally:
            await node.stop()


@pytest.mark.redis
async def test_a_server_that_cannot_start_shows_the_end_of_its_log_and_may_be_started_again(
    tmp_path: Path,
) -> None:
    node = RedisNode(tmp_path, {"no-such-option": "1"})
    with pytest.raises(ServiceFailed, match=r"(?s)ended while starting.*no-such-option"):
        await node.start()
    node.options.clear()
    await node.start()
    await node.stop()


@pytest.mark.redis
async def test_servers_end_with_the_process_that_started_them_even_if_it_is_killed(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout
    server = int(await holder.stdout.readline())
    os.kill(server, 0)
    holder.kill()
    await holder.wait()
    await wait_until(lambda: not is_alive(server), "the server's end")


async def test_asking_a_stopped_server_for_its_process_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceFailed, match="not running"):
        ServerProcess(tmp_path, 1).freeze()
