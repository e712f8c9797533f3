"""The Redis adapter when Redis is away, full, read-only, locked or somebody else's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from consumer.adapters.redis_scores import RedisScores, read_facts
from consumer.errors import DependencyUnavailable
from consumer.sections import RedisNotify, RedisSettings
from consumer.startup import RedisRefused, Unreachable
from tests.contract.caches import PATIENCE_SECONDS, RedisCache, entry
from tests.services.redis import RedisNode


@pytest_asyncio.fixture
async def redis_cache(redis: RedisNode) -> AsyncIterator[RedisCache]:
    cache = RedisCache(redis.url)
    yield cache
    await cache.close()


async def test_a_key_of_another_type_is_overwritten(redis_cache: RedisCache) -> None:
    await redis_cache.client.lpush(f"{redis_cache.prefix}id", "a list")
    assert await redis_cache.store.write([entry()]) == 0
    assert await redis_cache.get("id") == entry().value


async def test_a_script_that_redis_forgot_is_sent_again(redis_cache: RedisCache) -> None:
    await redis_cache.store.write([entry()])
    await redis_cache.client.script_flush()
    assert await redis_cache.store.write([entry()]) == 0


async def test_notifications_can_be_sharded_or_off(redis_cache: RedisCache) -> None:
    for notify in (RedisNotify.SPUBLISH, RedisNotify.OFF):
        settings = redis_cache.settings.model_copy(update={"notify": notify})
        store = RedisScores(settings)
        await redis_cache.listen()
        await store.write([entry()])
        await redis_cache.store.write([entry("last")])
        assert await redis_cache.published(1) == [("last", "ok")]
        await store.close()


@pytest_asyncio.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[RedisNode]:
    node = RedisNode(tmp_path)
    await node.start()
    yield node
    await node.stop()


async def test_a_frozen_redis_is_unavailable_within_the_deadline_and_works_again(own_redis: RedisNode) -> None:
    cache = RedisCache(own_redis.url)
    await cache.store.write([entry("before")])
    own_redis.freeze()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(DependencyUnavailable, match="redis"):
            await cache.store.write([entry()])
    assert isinstance(await read_facts(cache.settings), Unreachable)
    own_redis.thaw()
    assert await cache.store.write([entry()]) == 0
    assert await cache.get("id") == entry().value
    await cache.close()


async def test_a_redis_that_restarts_takes_the_same_write_again(own_redis: RedisNode) -> None:
    cache = RedisCache(own_redis.url)
    await cache.store.write([entry()])
    await own_redis.kill()
    with pytest.raises(DependencyUnavailable):
        await cache.store.write([entry()])
    await own_redis.start()
    assert await cache.store.write([entry()]) == 0
    await cache.close()


@pytest.mark.parametrize(
    ("make", "undo", "reason"),
    [
        (("config", "set", "maxmemory", "1"), ("config", "set", "maxmemory", "0"), "OOM|memory"),
        (("replicaof", "127.0.0.1", "1"), ("replicaof", "no", "one"), "read.only|READONLY"),
    ],
    ids=["out of memory", "read-only"],
)
async def test_a_redis_that_cannot_write_is_unavailable(
    own_redis: RedisNode, make: tuple[str, ...], undo: tuple[str, ...], reason: str
) -> None:
    cache = RedisCache(own_redis.url)
    await cache.client.execute_command(*make)  # type: ignore[no-untyped-call]
    with pytest.raises(DependencyUnavailable, match=reason):
        await cache.store.write([entry()])
    await cache.client.execute_command(*undo)  # type: ignore[no-untyped-call]
    assert await cache.store.write([entry()]) == 0
    await cache.close()


async def test_a_redis_that_loads_its_data_is_unavailable_until_it_has(own_redis: RedisNode) -> None:
    cache = RedisCache(own_redis.url)
    await cache.client.mset({f"key {number}": "x" * 100 for number in range(1000)})
    await cache.client.save()
    await own_redis.kill()
    own_redis.options |= {"key-load-delay": "2000", "loading-process-events-interval-bytes": "1024"}
    starting = asyncio.create_task(own_redis.start())
    refusals: set[str] = set()
    while not starting.done():
        try:
            await cache.store.write([entry()])
        except DependencyUnavailable as unavailable:
            refusals.add(unavailable.reason)
        await asyncio.sleep(0.02)
    await starting
    assert any("loading" in refusal for refusal in refusals), refusals
    assert await cache.store.write([entry()]) == 0
    await cache.close()


async def test_a_wrong_password_is_told_as_such_without_the_password(tmp_path: Path) -> None:
    node = RedisNode(tmp_path, {"requirepass": "right"})
    node.check_ready = lambda: asyncio.sleep(0)  # type: ignore[method-assign]  # PING needs the password
    await node.start()
    try:
        url = f"redis://:wrong-secret@127.0.0.1:{node.port}/0"
        facts = await read_facts(RedisSettings(url=SecretStr(url)))
        assert isinstance(facts, RedisRefused)
        assert "wrong-secret" not in facts.reason
        assert f"127.0.0.1:{node.port}" in facts.reason
    finally:
        await node.stop()
