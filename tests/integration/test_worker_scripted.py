"""The whole worker as a process on Apache Kafka and Redis, with made-up scores: what it does with any input."""

import asyncio
import json
from pathlib import Path

from aiokafka import AIOKafkaProducer
from redis.asyncio import Redis

from tests.conftest import CreateTopics
from tests.services.kafka import KafkaNode
from tests.services.reading import committed_offsets, read_topic
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

BAD = {
    "not JSON": b"{",
    "not an object": b"[1]",
    "invalid UTF-8": b'{"id":"\xff"}',
    "no id": b'{"task":"score","query":"q","document":"d"}',
    "unknown field": b'{"id":"ID","task":"score","query":"q","document":"d","topn":1}',
    "wrong type": b'{"id":"ID","task":"score","query":5,"document":"d"}',
    "future version": b'{"schema":9,"id":"ID","anything":1}',
    "wrong model": b'{"id":"ID","task":"score","query":"q","document":"d","model":"another"}',
    "unsupported task": b'{"id":"ID","task":"embed","input":"d"}',
    "refused by the engine": b'{"id":"ID","task":"score","query":"q","document":"!reject"}',
}


async def test_a_third_of_many_requests_bad_in_ten_ways(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, tmp_path: Path
):
    """Complete, ordered, no duplicate, the good ones all answered, the bad ones all dead letters."""
    count, partitions = 20_000, 8
    names = await topics(kafka, requests=partitions, results=partitions, dead=partitions)
    good, bad = await publish(kafka, names["requests"], count, partitions)
    worker = WorkerProcess(tmp_path, worker_settings(kafka, redis, names))
    await worker.start()
    nameless = sum(b'"id":"bad' not in value for _, value in bad)
    results = await read_topic(kafka.bootstrap_servers, names["results"], count - nameless)
    dead = await read_topic(kafka.bootstrap_servers, names["dead"], len(bad))
    assert await worker.stop() == 0
    by_partition: dict[int, list[int]] = {}
    for record in results:
        headers = dict(record.headers)
        assert int(headers["scorestream-source-partition"]) == record.partition
        by_partition.setdefault(record.partition, []).append(int(headers["scorestream-source-offset"]))
    for offsets in by_partition.values():
        assert offsets == sorted(set(offsets)), "in request order, once each"
    answered = {json.loads(record.value)["id"] for record in results if json.loads(record.value)["status"] == "ok"}
    assert answered == good
    assert len(dead) == len(bad)
    assert {(record.partition, record.value) for record in dead} == {(partition, value) for partition, value in bad}
    committed = await committed_offsets(kafka.bootstrap_servers, "group." + names["requests"], names["requests"])
    assert sum(committed.values()) == count
    client = Redis(port=redis.port)
    kept = await client.mget([f"{names['requests']}:{one}" for one in sorted(good)])
    await client.aclose()
    assert [json.loads(value)["id"] for value in kept] == sorted(good)
    assert set(kept) <= {record.value for record in results}, "the same bytes as on the topic"


def worker_settings(kafka: KafkaNode, redis: RedisNode, names: dict[str, str]) -> dict[str, object]:
    """Settings of a worker with topics, group and key prefix of its own."""
    return {
        "kafka.bootstrap_servers": kafka.bootstrap_servers,
        "kafka.request_topic": names["requests"],
        "kafka.result_topic": names["results"],
        "kafka.dead_letter_topic": names["dead"],
        "kafka.group_id": "group." + names["requests"],
        "redis.url": f"redis://127.0.0.1:{redis.port}/0",
        "redis.prefix": names["requests"] + ":",
        "engine.kind": "scripted",
    }


async def publish(
    kafka: KafkaNode, topic: str, count: int, partitions: int
) -> tuple[set[str], list[tuple[int, bytes]]]:
    """Two good requests, then a bad one, and so on; the ids of the good, partition and value of the bad."""
    good: set[str] = set()
    bad: list[tuple[int, bytes]] = []
    kinds = list(BAD.values())
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=20)
    await producer.start()
    for number in range(count):
        partition = number * 7 % partitions
        if number % 3 == 2:
            value = kinds[len(bad) % len(kinds)].replace(b"ID", b"bad-%d" % number)
            bad.append((partition, value))
        else:
            good.add(f"good-{number}")
            value = json.dumps(
                {"id": f"good-{number}", "task": "score", "query": f"query {number}", "document": "some words"}
            ).encode()
        await producer.send(topic, value, partition=partition)
    await producer.stop()
    return good, bad


async def test_a_header_key_that_is_not_utf8_costs_its_record_alone(
    kafka: KafkaNode, redis: RedisNode, topics: CreateTopics, kcat: str, tmp_path: Path
):
    names = await topics(kafka, requests=1, results=1, dead=1)
    publish_to = [kcat, "-P", "-b", kafka.bootstrap_servers, "-t", names["requests"], "-p", "0"]
    for header, name in ((b"plain=1", b"before"), (b"\xff\xfe=1", b"bad"), (b"plain=1", b"after")):
        value = b'{"id":"%s","task":"score","query":"q","document":"d"}\n' % name
        process = await asyncio.create_subprocess_exec(*publish_to, "-H", header, stdin=asyncio.subprocess.PIPE)
        await process.communicate(value)
        assert process.returncode == 0
    worker = WorkerProcess(tmp_path, worker_settings(kafka, redis, names))
    await worker.start()
    results = await read_topic(kafka.bootstrap_servers, names["results"], 3)
    [letter] = await read_topic(kafka.bootstrap_servers, names["dead"], 1)
    assert await worker.stop() == 0
    answers = [json.loads(record.value) for record in results]
    assert [(answer["id"], answer["status"]) for answer in answers] == [
        *(("before", "ok"), ("bad", "error"), ("after", "ok")),
    ]
    headers = dict(letter.headers)
    assert headers["scorestream-error-code"] == b"schema"
    assert headers["scorestream-source-offset"] == b"1"
