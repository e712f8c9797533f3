"""Redis by TLS with users, behind Sentinels and as a cluster, as the worker's store and as readers see it."""

import asyncio
import os
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from consumer.adapters.redis_scores import RedisScores, read_facts
from consumer.errors import DependencyUnavailable, SettingsInvalid
from consumer.records import ScoreEntry
from consumer.sections import RedisNotify, RedisSettings
from consumer.startup import RedisFacts, RedisRefused, Unreachable
from producer_tools.connections.redis import RedisServer
from producer_tools.connections.settings import RedisSecurity
from producer_tools.get import get_from_redis
from tests.contract.caches import PATIENCE_SECONDS, RedisCache, entry
from tests.services.redis import RedisNode
from tests.services.secured_redis import (
    ADMIN_PASSWORD,
    RedisClusterNodes,
    SecuredRedis,
    SentinelNode,
    documented_cluster_user,
    documented_user,
)

pytestmark = pytest.mark.redis

FAILOVER_SECONDS = 30.0


async def users(node: SecuredRedis, prefix: str) -> None:
    """Those of the documentation, who may do what it says and no more."""
    for name in ("worker", "reader"):
        await node.administer(*documented_user(name, prefix, f"{name}-secret"))


def cache_of(node: SecuredRedis) -> RedisCache:
    """The worker writes, the reader reads."""
    worker = node.server(username="worker", password="worker-secret")
    return RedisCache(worker.url, worker.security, node.server(username="reader", password="reader-secret"), 5.0)


async def until_written(store: RedisScores, one: ScoreEntry) -> set[str]:
    """Write until it is taken; what was said until then."""
    said = set()
    async with asyncio.timeout(FAILOVER_SECONDS):
        while True:
            try:
                await store.write([one])
            except DependencyUnavailable as unavailable:
                said.add(unavailable.reason)
                await asyncio.sleep(0.1)
            else:
                return said


async def test_the_documented_users_can_do_their_work_by_tls_and_nothing_else(secured_redis: SecuredRedis) -> None:
    cache = cache_of(secured_redis)
    await users(secured_redis, cache.prefix)
    await cache.listen()
    await cache.store.claim_prefix("cluster/topic/group", 0.0)
    await cache.store.claim_prefix("cluster/topic/group", 0.0)
    assert await cache.store.write([entry()]) == 0
    assert await cache.get("id") == entry().value
    assert await cache.published(1) == [("id", "ok")]
    facts = await read_facts(cache.settings)
    assert isinstance(facts, RedisFacts)
    assert facts.forbidden == ()
    assert [(claim.prefix, claim.owner) for claim in facts.claims or ()] == [(cache.prefix, "cluster/topic/group")]
    with pytest.raises(NoPermissionError):
        await cache.put_foreign("id", b"the reader's")
    with pytest.raises(NoPermissionError):
        await cache.client.get("another prefix")
    await cache.close()


async def test_a_right_that_lacks_is_named(secured_redis: SecuredRedis) -> None:
    cache = cache_of(secured_redis)
    await users(secured_redis, cache.prefix)
    await secured_redis.administer("ACL", "SETUSER", "worker", "-publish", "-set")
    facts = await read_facts(cache.settings)
    assert isinstance(facts, RedisFacts)
    results, owner = f"{cache.prefix}*", f"scorestream:owner:{cache.prefix}"
    assert facts.forbidden == (("SET", results), ("PUBLISH", results), ("SET", owner))
    rules = ("ACL", "SETUSER", "worker", "resetkeys", f"~{results}", f"~{owner}", "+publish", "+set", "-time")
    await secured_redis.administer(*rules)
    facts = await read_facts(cache.settings)
    assert isinstance(facts, RedisFacts)
    assert facts.claims is None, "they cannot be read"
    commands = ("HGET", "HGETALL", "HSET", "HDEL")
    assert facts.forbidden == (*((command, "scorestream:prefixes") for command in commands), ("TIME", ""))
    await secured_redis.administer("ACL", "SETUSER", "worker", "-evalsha")
    refused = await read_facts(cache.settings)
    assert isinstance(refused, RedisRefused)
    assert "evalsha" in refused.reason
    await cache.close()


async def test_why_a_secured_redis_does_not_let_the_worker_in(secured_redis: SecuredRedis, redis: RedisNode) -> None:
    by_name, secret = secured_redis.url, "worker-secret"
    by_address = by_name.replace("localhost", "127.0.0.1")
    trusted = {"ca_file": secured_redis.authority.ca_file, "password": ADMIN_PASSWORD}
    for url, security, found, fix in (
        (by_name, {}, "not trusted", "redis.security.ca_file"),
        (by_address, trusted, "not valid for '127.0.0.1'", "a name that stands in the certificate"),
        (by_name.replace("rediss", "redis"), {}, "", "write rediss in place of redis"),
        (redis.url.replace("redis:", "rediss:"), trusted, "no answer", "if it does not speak TLS, write redis"),
    ):
        settings = RedisSettings.model_validate({"url": url, "security": security})
        facts = await read_facts(settings)
        assert isinstance(facts, Unreachable), facts
        assert found in facts.reason
        assert fix in facts.fix
        assert secret not in str(facts)
    wrong = RedisSettings.model_validate({"url": by_name, "security": trusted | {"password": "wrong"}})
    refused = await read_facts(wrong)
    assert isinstance(refused, RedisRefused)
    assert "WRONGPASS" in refused.reason or "invalid username-password" in refused.reason


async def test_a_changed_password_is_waited_for_and_taken_from_its_file(
    secured_redis: SecuredRedis, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    await secured_redis.administer("ACL", "SETUSER", "rotated", "on", ">first", "~*", "&*", "+@all")
    server = secured_redis.server(username="rotated", password_file=file)
    cache = RedisCache(server.url, server.security, timeout_seconds=5.0)
    await cache.store.write([entry("before")])
    await secured_redis.administer("ACL", "SETUSER", "rotated", "resetpass", ">second")
    # Who is connected already stays so: as with Kafka, the change concerns new connections.
    await secured_redis.administer("CLIENT", "KILL", "USER", "rotated")
    with pytest.raises(DependencyUnavailable, match="refuses its user or password"):
        await cache.store.write([entry()])
    (tmp_path / "next").write_text("second\n")
    os.replace(tmp_path / "next", file)  # noqa: PTH105 - as Kubernetes does it: in one step
    assert await cache.store.write([entry()]) == 0
    await cache.close()


async def test_after_a_failover_the_store_writes_to_the_new_master(tmp_path: Path) -> None:
    master, replica = RedisNode(tmp_path / "master"), RedisNode(tmp_path / "replica")
    sentinel = SentinelNode(tmp_path / "sentinel", "scores", master)
    replica.options["replicaof"] = f"127.0.0.1 {master.port}"
    for node in (master, replica, sentinel):
        await node.start()
    await sentinel.until_replicas(1)
    url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/scores/0"
    cache = RedisCache(url, timeout_seconds=5.0)
    await cache.store.write([entry("before")])
    await master.kill()
    said = await until_written(cache.store, entry("after"))
    assert said, "nobody wrote while there was no master"
    assert await cache.get("after") == entry("after").value
    reader = RedisServer(replica.url).connect(5.0)
    assert await reader.get(f"{cache.prefix}after") == entry("after").value
    facts = await read_facts(cache.settings)
    assert isinstance(facts, RedisFacts)
    assert facts.role == "master"
    unknown = RedisSettings.model_validate({"url": url.replace("scores", "unknown")})
    unreachable = await read_facts(unknown)
    assert isinstance(unreachable, Unreachable)
    assert "one that they watch" in unreachable.fix
    await reader.aclose()
    await cache.close()
    for node in (sentinel, replica):
        await node.stop()


async def test_a_cluster_takes_a_chunk_over_all_its_nodes_and_tells_waiters_by_shard(
    redis_cluster: RedisClusterNodes,
) -> None:
    worker, reader = (
        RedisServer(redis_cluster.url, RedisSecurity.model_validate({"username": name, "password": f"{name}-secret"}))
        for name in ("worker", "reader")
    )
    cache = RedisCache(worker.url, worker.security, reader, timeout_seconds=10.0)
    for node in redis_cluster.nodes:
        async with Redis.from_url(node.url) as administrator:
            for name in ("worker", "reader"):
                await administrator.execute_command(*documented_user(name, cache.prefix, f"{name}-secret"))
                await administrator.execute_command(*documented_cluster_user(name))
    await cache.store.claim_prefix("cluster/topic/group", 0.0)
    sharded = RedisScores(cache.settings.model_copy(update={"notify": RedisNotify.SPUBLISH}))
    async with cache.client, cache.client.pubsub() as hints:
        await hints.ssubscribe(f"{cache.prefix}7")
        await hints.get_sharded_message(timeout=PATIENCE_SECONDS)
        assert await sharded.write([entry(f"{number}") for number in range(500)]) == 0
        hint = await hints.get_sharded_message(ignore_subscribe_messages=True, timeout=PATIENCE_SECONDS)
        assert hint["data"] == b"ok"
    held = [await cache.get(f"{number}") for number in range(0, 500, 50)]
    assert held == [entry(f"{number}").value for number in range(0, 500, 50)]
    waiting = asyncio.create_task(get_from_redis("late", server=reader, prefix=cache.prefix, wait_seconds=20))
    await cache.store.write([entry("late")])
    assert await waiting == entry("late").value
    # A node that restarted has forgotten the script.
    async with RedisServer(redis_cluster.url).connect(10.0) as administrator:
        await administrator.script_flush()
    assert await cache.store.write([entry(f"{number}", offset=1, timestamp_ms=1) for number in range(500)]) == 500
    facts = await read_facts(cache.settings)
    assert isinstance(facts, RedisFacts)
    assert facts.mode == "cluster"
    await sharded.close()
    await cache.close()


async def test_when_a_node_of_a_cluster_freezes_the_store_writes_to_its_replica(redis_7: None, tmp_path: Path) -> None:
    cluster = RedisClusterNodes(tmp_path)
    await cluster.start()
    await cluster.add_replica()
    store = RedisScores(RedisSettings.model_validate({"url": cluster.url}))
    await store.write([entry(f"{number}") for number in range(100)])
    cluster.nodes[0].freeze()
    said: set[str] = set()
    for number in range(0, 100, 10):
        said |= await until_written(store, entry(f"{number}", offset=11, timestamp_ms=1001))
    assert any("Timeout" in one or "no answer" in one for one in said)
    await store.close()
    await cluster.stop()


@pytest.mark.parametrize(
    ("url", "security", "says"),
    [
        ("redis://a", {"ca_file": "ca.pem"}, "write rediss in place of redis"),
        ("redis://u:p@a", {"password": "p"}, "leave one out"),
        ("rediss://a", {"ca_file": "/no/such.pem"}, "/no/such.pem: No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, security: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsInvalid, match=says):
        RedisScores(RedisSettings.model_validate({"url": url, "security": security}))
