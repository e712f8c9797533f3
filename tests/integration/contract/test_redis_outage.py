"""Redis goes away while workers run: what it costs in each mode."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.integration.contract.deployment import Deployment, deployed
from tests.services.kafka import KafkaNode
from tests.services.reading import committed_offsets, wait_committed
from tests.services.redis import RedisNode


@dataclass(frozen=True)
class Outage:
    """One worker of each mode on one Redis, which was not there for the second of three requests, and lost its data."""

    required: Deployment
    best_effort: Deployment


def request(request_id: str) -> bytes:
    return json.dumps({"id": request_id, "task": "score", "query": "q", "document": "d"}).encode()


async def committed(deployment: Deployment) -> int:
    """Requests that the worker will not see again."""
    group, topic = str(deployment.settings["kafka.group_id"]), deployment.requests.name
    return sum((await committed_offsets(deployment.kafka.bootstrap_servers, group, topic)).values())


async def until_committed(deployment: Deployment, count: int) -> None:
    group, topic = str(deployment.settings["kafka.group_id"]), deployment.requests.name
    await wait_committed(deployment.kafka.bootstrap_servers, group, topic, count)


@pytest_asyncio.fixture(scope="module")
async def outage(kafka: KafkaNode, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Outage]:
    redis = RedisNode(tmp_path_factory.mktemp("redis"))
    async with AsyncExitStack() as closing:
        await redis.start()
        closing.push_async_callback(redis.stop)
        required, best_effort = await asyncio.gather(
            *(
                closing.enter_async_context(deployed(kafka, redis, tmp_path_factory.mktemp(mode), {"redis.mode": mode}))
                for mode in ("required", "best_effort")
            )
        )
        for deployment in (required, best_effort):
            await deployment.publish(request("before"))
            await until_committed(deployment, 1)
        await redis.kill()
        for deployment in (required, best_effort):
            await deployment.publish(request("meanwhile"))
            await deployment.result("meanwhile")
        await until_committed(best_effort, 2)
        assert await committed(required) == 1, "an offset is committed only after Redis took the result"
        await redis.start()
        for deployment in (required, best_effort):
            await deployment.publish(request("afterwards"))
        yield Outage(required, best_effort)


async def test_required_writes_what_redis_missed(outage: Outage) -> None:
    """And then commits it; on the topic it stands once."""
    for request_id in ("meanwhile", "afterwards"):
        await outage.required.holds(request_id, (await outage.required.result(request_id)).value)
    await until_committed(outage.required, 3)
    assert [record.message["id"] for record in outage.required.results.records] == ["before", "meanwhile", "afterwards"]


async def test_best_effort_loses_cache_entries_only(outage: Outage) -> None:
    """The topic has all results, offsets went on without Redis, and what comes after the outage is cached again."""
    after = await outage.best_effort.result("afterwards")
    await outage.best_effort.holds("afterwards", after.value)
    assert await outage.best_effort.cached("meanwhile") == b""
    await until_committed(outage.best_effort, 3)
    records = outage.best_effort.results.records
    assert [record.message["id"] for record in records] == ["before", "meanwhile", "afterwards"]
