"""Redis that answers late, not at all, or with a refusal: what it costs in each mode, and what stands in it after."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.integration.cases.case import (
    CHUNK_RECORDS,
    PARTITIONS,
    MakeCase,
    request,
    requests,
)
from tests.services.kafka_proxy import Api, KafkaProxy
from tests.services.process import wait_until
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

pytestmark = pytest.mark.kafka

SESSION_SECONDS = 6
"""Long enough that a busy machine alone ends none."""
FROZEN_SECONDS = SESSION_SECONDS + 1
DRAIN_SECONDS = 3
WAIT_SECONDS = 30.0
BEST_EFFORT: dict[str, object] = {"redis.mode": "best_effort"}


@pytest_asyncio.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[RedisNode]:
    node = RedisNode(tmp_path / "redis")
    await node.start()
    yield node
    await node.stop()


@pytest_asyncio.fixture
async def client(own_redis: RedisNode) -> AsyncIterator[Redis]:
    client = Redis.from_url(own_redis.url)
    yield client
    await client.aclose()


async def test_a_frozen_redis_costs_no_membership_and_no_key_gets_the_result_of_another(
    make_case: MakeCase, kafka_proxy: KafkaProxy, own_redis: RedisNode
):
    """Writes are given up and repeated, their replies come late: none is taken for the reply to another write."""
    settings = {
        "kafka.bootstrap_servers": kafka_proxy.address,
        "kafka.session_timeout_seconds": SESSION_SECONDS,
        "shutdown.drain_seconds": DRAIN_SECONDS,
    }
    case = await make_case(cache=own_redis, settings=settings)
    worker = await case.started()
    await case.publish(requests(200))
    await case.until_all_committed()
    joined = kafka_proxy.requests[Api.JOIN_GROUP]
    own_redis.freeze()
    for partition in range(PARTITIONS):
        await case.publish(requests(250, first=1000 * (partition + 1)), partition)
    await asyncio.sleep(FROZEN_SECONDS)
    own_redis.thaw()
    await case.until_all_committed()
    assert kafka_proxy.requests[Api.JOIN_GROUP] == joined
    audit = await case.verified()
    assert audit.redis_checked == 1200
    assert audit.tally.duplicates == 0
    own_redis.freeze()
    await case.publish(requests(100, first=9000))
    await case.results(1220)
    worker.send(signal.SIGTERM)
    assert await worker.wait(DRAIN_SECONDS + 5) == 0
    own_redis.thaw()
    [said] = [event for event in worker.events() if event.get("event") == "given back"]
    assert (said["level"], said["how"], said["unfinished_records"]) == ("warning", "unfinished", 100)


async def test_in_best_effort_a_frozen_redis_does_not_slow_the_results(make_case: MakeCase, own_redis: RedisNode):
    """Fifty chunks that each waited for it would take fifty seconds."""
    case = await make_case(1, cache=own_redis, settings=BEST_EFFORT)
    worker = await case.started()
    await case.publish(requests(CHUNK_RECORDS))
    await case.until_all_committed()
    own_redis.freeze()
    await case.publish(requests(50 * CHUNK_RECORDS, first=CHUNK_RECORDS))
    await case.results(51 * CHUNK_RECORDS, timeout_seconds=25)
    own_redis.thaw()
    await case.until_all_committed()
    assert await worker.stop() == 0
    [totals] = [event for event in worker.events() if event["event"] == "totals"]
    assert 0 < totals["cache_losses"] <= 50 * CHUNK_RECORDS


async def test_a_replay_never_takes_a_key_back_to_an_earlier_answer(
    make_case: MakeCase, kafka_proxy: KafkaProxy, own_redis: RedisNode, client: Redis
):
    """The same id at two offsets, both answered and neither committed when the worker is killed: both come again."""
    case = await make_case(1, cache=own_redis)
    with kafka_proxy.hold(Api.OFFSET_COMMIT, case.place.name):
        first = await case.started("first", {"kafka.bootstrap_servers": kafka_proxy.address})
        # Published at once, so that both carry the timestamp of one millisecond.
        await case.publish(
            [
                *requests(10),
                request("twice", "earlier words"),
                *requests(9, first=11),
                request("twice", "later words"),
            ]
        )
        key = f"{case.place.name}:twice"
        async with asyncio.timeout(WAIT_SECONDS):
            while await offset_in(client, key) != 20:  # noqa: ASYNC110 -- notifications are hints
                await asyncio.sleep(0.01)
        first.send(signal.SIGKILL)
        seen: set[int | None] = set()
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch(client, key, seen, enough))
            second = await case.started("second")
            await case.until_all_committed()
            enough.set()
    assert seen == {20}
    audit = await case.verified()
    assert audit.tally.duplicates == 21, "all of it was written again"
    assert await second.stop() == 0


async def offset_in(client: Redis, key: str) -> int | None:
    """Of the request that the result under this key answers."""
    value = await client.get(key)
    return None if value is None else int(json.loads(value)["source"]["offset"])


async def watch(client: Redis, key: str, seen: set[int | None], enough: asyncio.Event) -> None:
    """Not cancelled: the client may swallow that together with an answer."""
    while not enough.is_set():
        seen.add(await offset_in(client, key))
        await asyncio.sleep(0.002)


ExecuteOn = Callable[[Redis, Path], Awaitable[object]]


async def misconfigure(client: Redis, folder: Path) -> None:
    """As on a full disk: snapshots fail, and a Redis that is to keep snapshots then takes no writes."""
    await client.config_set("save", "3600 1")
    folder.joinpath("dump.rdb").mkdir()
    await save(client, "err")


async def configure(client: Redis, folder: Path) -> None:
    folder.joinpath("dump.rdb").rmdir()
    await save(client, "ok")


async def save(client: Redis, outcome: str) -> None:
    await client.bgsave()
    async with asyncio.timeout(WAIT_SECONDS):
        while (await client.info("persistence"))["rdb_last_bgsave_status"] != outcome:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


AILMENTS: dict[str, tuple[str, ExecuteOn, ExecuteOn]] = {
    "full": (
        "maxmemory",
        lambda client, _: client.config_set("maxmemory", 1),
        lambda client, _: client.config_set("maxmemory", 0),
    ),
    "a replica": (
        "read only",
        # Of a port on which nobody listens: what it holds, it keeps.
        lambda client, _: client.replicaof("127.0.0.1", "1"),
        lambda client, _: client.replicaof("NO", "ONE"),
    ),
    "unable to save": ("MISCONF", misconfigure, configure),
}


async def test_a_redis_that_takes_no_writes_holds_required_workers_alone_and_has_all_when_it_does_again(
    make_case: MakeCase, own_redis: RedisNode, client: Redis
):
    """Full, made a replica, unable to save: results are on the topic, offsets wait; in best_effort they do not."""
    required, best_effort = (
        await make_case(1, cache=own_redis),
        await make_case(1, cache=own_redis, settings=BEST_EFFORT),
    )
    holding, losing = await asyncio.gather(required.started("required"), best_effort.started("best-effort"))
    count = 0
    for reason, make, undo in AILMENTS.values():
        await make(client, own_redis.folder)
        for case in (required, best_effort):
            await case.publish(requests(10, first=count))
            await case.results(count + 10)
        await best_effort.until_all_committed()
        await holding_by(holding, reason)
        await required.offsets.look()
        assert required.offsets.latest.get(0, 0) == count, "an offset is committed only after Redis took the result"
        await undo(client, own_redis.folder)
        await required.until_all_committed()
        count += 10
    audit = await required.verified()
    assert (audit.redis_checked, audit.tally.duplicates) == (count, 0)
    assert (await holding.stop(), await losing.stop()) == (0, 0)
    [totals] = [event for event in losing.events() if event["event"] == "totals"]
    assert totals["cache_losses"] == count


async def holding_by(worker: WorkerProcess, reason: str) -> None:
    """Until the worker has told that it is held, and by what Redis says."""
    await wait_until(
        lambda: any(event["event"] == "held" and reason in event["reason"] for event in worker.events()), reason
    )


@pytest.mark.parametrize("mode", ["required", "best_effort"])
async def test_a_password_that_is_not_taken_any_more_ends_the_worker_and_costs_nothing(
    make_case: MakeCase, own_redis: RedisNode, client: Redis, mode: str
):
    """Trying again cannot help: whoever starts the worker anew has to give it the present password."""
    case = await make_case(1, cache=own_redis, settings={"redis.mode": mode})
    worker = await case.started()
    await case.publish(requests(3))
    await case.until_all_committed()
    await client.config_set("requirepass", "another")
    await client.client_kill_filter(_type="normal", skipme=True)
    await case.publish(requests(3, first=3))
    assert await worker.wait() == 2
    [end] = [event for event in worker.events() if event["event"] == "refused to start" or "type" in event]
    assert "redis.url" in str(end["reason"])
    await case.offsets.look()
    assert case.offsets.latest == {0: 3}
    assert await case.place.ends(case.place.topics.dead_letters) == {0: 0}
    await client.execute_command("AUTH", "another")
    await client.config_set("requirepass", "")
    following = await case.started("next")
    await case.until_all_committed()
    assert await following.stop() == 0
    await case.verified()
