"""Redis as a reader finds it: keys, times to live, messages, and what is never overwritten by what."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from scripts.kafka import environment
from scripts.kafka_home import kafka_home
from tests.integration.contract.deployment import Deployment, deployed
from tests.integration.contract.outside import Channel, redis_cli, run
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

SCORE = {"task": "score", "query": "q", "document": "d"}
LATER_MS, EARLIER_MS = 10**12, -(10**12)


@pytest_asyncio.fixture(scope="module")
async def worker(
    kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    settings = {"redis.ttl_seconds": 500, "redis.max_ttl_seconds": 5000}
    async with deployed(kafka, redis, tmp_path_factory.mktemp("redis"), settings) as deployment:
        yield deployment


def request(request_id: str, **fields: Any) -> bytes:
    return json.dumps({"id": request_id} | SCORE | fields).encode()


async def ttl_seconds(worker: Deployment, request_id: str) -> int:
    return int(await redis_cli(worker.redis, "TTL", worker.key(request_id)))


@pytest.mark.parametrize(
    ("fields", "most"),
    [({}, 500), ({"ttl_seconds": 5000}, 5000), ({"ttl_seconds": 70, "document": ""}, 70), ({"topn": 1}, 500)],
    ids=["default", "as asked", "of an error as asked", "of an error by default"],
)
async def test_a_result_always_has_a_time_to_live(worker: Deployment, fields: dict[str, Any], most: int) -> None:
    request_id = f"ttl {fields}"
    await worker.publish(request(request_id, **fields))
    record = await worker.result(request_id)
    await worker.holds(request_id, record.value)
    assert most - 60 < await ttl_seconds(worker, request_id) <= most


async def test_reading_consumes_nothing(worker: Deployment) -> None:
    await worker.publish(request("read"))
    record = await worker.result("read")
    await worker.holds("read", record.value)
    assert await worker.cached("read") == await worker.cached("read") == record.value


async def test_nil_means_unknown(worker: Deployment) -> None:
    assert await worker.cached("never sent") == b""
    assert await redis_cli(worker.redis, "EXISTS", worker.key("never sent")) == b"0"


async def test_a_waiter_is_told_ok_or_error(worker: Deployment) -> None:
    channel = Channel(worker.redis, worker.key("told"))
    await channel.subscribe()
    await worker.publish(request("told"), request("told", topn=1))
    assert await channel.payloads(2) == ["ok", "error"]
    await channel.stop()


def moved(value: bytes, by: dict[str, int]) -> bytes:
    """A result as if it were the answer to another record: the numbers of its source are so much larger."""

    def larger(found: re.Match[bytes]) -> bytes:
        name, number = found[1].decode(), int(found[2])
        return f'"{name}":{number + by.get(name, 0)}'.encode()

    return re.sub(rb'"(partition|offset|timestamp_ms)":(-?\d+)', larger, value, count=3)


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({"offset": 10, "timestamp_ms": LATER_MS}, True),
        ({"offset": 10, "timestamp_ms": EARLIER_MS}, False),
        ({"offset": -1, "timestamp_ms": LATER_MS}, False),
        ({"partition": 1, "offset": -1, "timestamp_ms": LATER_MS}, True),
        ({"partition": 1, "offset": 10, "timestamp_ms": EARLIER_MS}, False),
    ],
    ids=[
        "a later record of the partition stays",
        "a higher offset of an earlier time gives way: the topic was made anew",
        "a lower offset gives way",
        "a later record of another partition stays",
        "an earlier record of another partition gives way, whatever its offset",
    ],
)
async def test_the_fence_keeps_newer_answers(worker: Deployment, change: dict[str, int], stays: bool) -> None:
    """`change`: where the stored answer stands, seen from the new one. The waiter is told in any case."""
    request_id = f"fence {change}"
    await worker.publish(request(request_id))
    first = await worker.result(request_id)
    await worker.holds(request_id, first.value)
    assert first.value is not None
    # The next request's own offset is one higher.
    stored = moved(first.value, change | {"offset": change["offset"] + 1})
    assert stored != first.value
    await redis_cli(worker.redis, "SET", worker.key(request_id), stored, "EX", "400")
    channel = Channel(worker.redis, worker.key(request_id))
    await channel.subscribe()
    await worker.publish(request(request_id))
    _, second = await worker.results_of(request_id, 2)
    assert await channel.payloads(1) == ["ok"]
    await channel.stop()
    assert await worker.cached(request_id) == (stored if stays else second.value)


async def test_a_forced_replay_overrides_the_fence(worker: Deployment) -> None:
    """By the header that `scorestream replay --force` sets."""
    await worker.publish(request("forced"))
    first = await worker.result("forced")
    await worker.holds("forced", first.value)
    assert first.value is not None
    stored = moved(first.value, {"partition": 1, "timestamp_ms": LATER_MS})
    await redis_cli(worker.redis, "SET", worker.key("forced"), stored)
    await worker.publish(request("forced"), headers=[("scorestream-replay-force", b"1")])
    _, second = await worker.results_of("forced", 2)
    await worker.holds("forced", second.value)


async def test_an_answer_from_another_partition_follows_the_time_of_the_request(worker: Deployment) -> None:
    """Offsets mean nothing across partitions: the later request wins, though its offset is lower."""
    await worker.publish(*(request(f"filler {number}") for number in range(5)), request("moved"), partition=1)
    await worker.results_of("moved", 1)
    await worker.publish(request("moved", document="other"), partition=2)
    first, second = await worker.results_of("moved", 2)
    assert second.message["source"]["offset"] < first.message["source"]["offset"]
    await worker.holds("moved", second.value)


@pytest.mark.parametrize("foreign", [("SET", "no result"), ("RPUSH", "a list")], ids=["text", "list"])
async def test_what_is_no_result_is_overwritten(worker: Deployment, foreign: tuple[str, str]) -> None:
    command, value = foreign
    await redis_cli(worker.redis, command, worker.key(value), value)
    await worker.publish(request(value))
    await worker.holds(value, (await worker.result(value)).value)


async def test_the_prefix_is_claimed_by_cluster_topic_and_group(worker: Deployment) -> None:
    owner = (await redis_cli(worker.redis, "GET", f"scorestream:owner:{worker.settings['redis.prefix']}")).decode()
    cluster, topic, group = owner.split("/")
    assert (topic, group) == (worker.settings["kafka.request_topic"], worker.settings["kafka.group_id"])
    assert cluster


async def test_a_shadow_does_not_overwrite_production(worker: Deployment) -> None:
    """Another group under the same prefix is refused at start, with the fix."""
    shadow = WorkerProcess(worker.folder, worker.settings | {"kafka.group_id": "shadow"})
    shadow.spawn()
    assert await shadow.wait() == 2
    assert f"redis-cli DEL scorestream:owner:{worker.settings['redis.prefix']}" in shadow.tail()


async def test_a_shadow_under_a_prefix_that_begins_with_productions_is_refused(worker: Deployment) -> None:
    """Production's request v2:q1 would write over the shadow's q1; beside it, with a dash, it cannot."""
    prefix = str(worker.settings["redis.prefix"])
    shadow = WorkerProcess(
        worker.folder, worker.settings | {"kafka.group_id": "shadow", "redis.prefix": f"{prefix}v2:"}
    )
    shadow.spawn()
    assert await shadow.wait() == 2
    assert f"{prefix}v2: begins with {prefix} (the id v2:x under {prefix} and the id x under" in shadow.tail()


async def test_an_idle_owner_keeps_its_prefix_though_redis_lost_the_claim(worker: Deployment) -> None:
    """A stranger is refused; the owner's own next worker is not."""
    prefix = str(worker.settings["redis.prefix"])
    await redis_cli(worker.redis, "HDEL", "scorestream:prefixes", prefix)
    await redis_cli(worker.redis, "DEL", f"scorestream:owner:{prefix}")
    stranger = WorkerProcess(worker.folder, worker.settings | {"kafka.group_id": "stranger"})
    stranger.spawn()
    assert await stranger.wait() == 2
    assert f"redis-cli HDEL scorestream:prefixes {prefix}" in stranger.tail()
    assert await worker.worker.stop() == 0
    again = WorkerProcess(worker.folder, worker.settings)
    await again.start()
    assert await again.stop() == 0
    await worker.worker.start()


async def test_an_error_never_replaces_the_same_records_answer(
    kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same requests again, by a worker that cannot answer one of them: its answer stays, the other is renewed."""
    async with deployed(kafka, redis, tmp_path_factory.mktemp("again")) as first:
        await first.publish(request("again", model="scripted"), request("anew"))
        answered, anew = await first.result("again"), await first.result("anew")
        assert answered.message["status"] == "ok"
        await first.holds("again", answered.value)
        assert await first.worker.stop() == 0
        await read_again(first)
        changed = WorkerProcess(first.folder, first.settings | {"engine.served_names": "other"})
        await changed.start()
        refused, renewed = (await first.results_of("again", 2))[1], (await first.results_of("anew", 2))[1]
        assert (refused.message["error"]["code"], refused.message["source"]) == (
            "wrong_model",
            answered.message["source"],
        )
        await first.holds("anew", renewed.value)
        assert renewed.value != anew.value
        assert await first.cached("again") == answered.value
        assert await changed.stop() == 0
        (totals,) = [event for event in changed.events() if event["event"] == "totals"]
        assert totals["fence_refusals"] == 1, "refused writes are counted"


async def read_again(deployment: Deployment) -> None:
    """Kafka's own tool sets the group back to the beginning."""
    command = str(kafka_home() / "bin" / "kafka-consumer-groups.sh")
    servers, group = deployment.kafka.bootstrap_servers, str(deployment.settings["kafka.group_id"])
    options = ("--bootstrap-server", servers, "--group", group, "--topic", deployment.requests.name)
    reset = ("--reset-offsets", "--to-earliest", "--execute")
    await run(command, *options, *reset, environment=environment(deployment.folder))
