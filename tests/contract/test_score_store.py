"""What every `ScoreStore` keeps to; the fence is the wire contract's, section 5."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from redis.asyncio import Redis

from consumer.adapters.redis_scores import RedisScores, read_facts
from consumer.errors import DependencyUnavailable, SettingsInvalid
from consumer.interfaces import ScoreStore
from consumer.records import ScoreEntry
from consumer.settings import RedisNotify, RedisSettings
from consumer.startup import RedisFacts, RedisRefused, Unreachable, owner_key
from schemas.errors import ErrorCode
from schemas.wire import seal_result
from tests.fakes.in_memory_scores import InMemoryScores
from tests.services.redis import RedisNode

TIMEOUT_SECONDS = 1.0


class Cache(Protocol):
    """A store and what its readers see. Ids are unique to it."""

    @property
    def store(self) -> ScoreStore: ...
    async def get(self, name: str) -> bytes | None: ...
    async def put_foreign(self, name: str, value: bytes) -> None: ...
    async def ttl_seconds(self, name: str) -> int: ...
    async def published(self, count: int) -> list[tuple[str, str]]: ...
    async def close(self) -> None: ...


class InMemoryCache:
    def __init__(self) -> None:
        self.store = self._scores = InMemoryScores()

    async def get(self, name: str) -> bytes | None:
        return self._scores.values.get(name)

    async def put_foreign(self, name: str, value: bytes) -> None:
        self._scores.values[name] = value

    async def ttl_seconds(self, name: str) -> int:
        return self._scores.ttl_seconds[name]

    async def published(self, count: int) -> list[tuple[str, str]]:
        return self._scores.published[:count]

    async def close(self) -> None:
        pass


class RedisCache:
    def __init__(self, url: str) -> None:
        self.prefix = f"{uuid.uuid4().hex}:"
        self.settings = RedisSettings(url=SecretStr(url), prefix=self.prefix, timeout_seconds=TIMEOUT_SECONDS)
        self.store = RedisScores(self.settings)
        self.client = Redis.from_url(url)
        self._channels = self.client.pubsub(ignore_subscribe_messages=True)

    async def listen(self) -> None:
        await self._channels.psubscribe(f"{self.prefix}*")
        # A subscription counts from its confirmation on.
        await self._channels.get_message(ignore_subscribe_messages=True, timeout=5)

    async def get(self, name: str) -> bytes | None:
        value = await self.client.get(self.prefix + name)
        assert not isinstance(value, str)
        return value

    async def put_foreign(self, name: str, value: bytes) -> None:
        await self.client.set(self.prefix + name, value)

    async def ttl_seconds(self, name: str) -> int:
        return await self.client.ttl(self.prefix + name)

    async def published(self, count: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        async with asyncio.timeout(5):
            while len(found) < count:
                message = await self._channels.get_message(timeout=1)
                if message is not None:
                    found.append((message["channel"].decode().removeprefix(self.prefix), message["data"].decode()))
        return found

    async def close(self) -> None:
        await self._channels.aclose()  # type: ignore[no-untyped-call]
        await self.client.aclose()
        await self.store.close()


@pytest_asyncio.fixture(params=["memory", "redis", "redis-resp2", "embedded"])
async def cache(request: pytest.FixtureRequest, store_url: str | None) -> AsyncIterator[Cache]:
    if store_url is None:
        yield InMemoryCache()
        return
    cache = RedisCache(store_url)
    await cache.listen()
    yield cache
    await cache.close()


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str | None:
    kind = request.node.callspec.params["cache"]
    if kind == "memory":
        return None
    if kind == "embedded":
        return str(request.getfixturevalue("embedded").redis_url)
    url: str = request.getfixturevalue("redis").url
    return f"{url}?protocol=2" if kind == "redis-resp2" else url


def entry(
    name: str = "id",
    *,
    topic: str = "requests",
    partition: int = 0,
    offset: int = 10,
    timestamp_ms: int = 1000,
    status: str = "ok",
    note: str = "",
    force: bool = False,
) -> ScoreEntry:
    """With the bytes that the worker writes: the fence reads their head."""
    sealed = seal_result(
        status=status,
        source=(topic, partition, offset, timestamp_ms),
        id=name,
        task="score",
        model=("model", None, "fingerprint"),
        scale=None,
        results=[],
        failed=[],
        truncated=[],
        prompt_tokens=None,
        error=None if status == "ok" else (ErrorCode.INTERNAL, "message", None),
        metadata={"note": note},
        dropped=[],
    )
    value = sealed.finish(dict.fromkeys(("queue", "prepare", "engine", "emit", "total"), 0.0), 0)
    return ScoreEntry(name, value, status, 60, topic, partition, offset, timestamp_ms, force)


STORED: dict[str, Any] = {"topic": "requests", "partition": 0, "offset": 10, "timestamp_ms": 1000}
FENCE: list[tuple[str, dict[str, Any], bool]] = [
    # what comes after STORED (status ok), and whether it is refused
    ("the same record again", {}, False),
    ("the same record, an error over ok", {"status": "error"}, True),
    ("a later record", {"offset": 11, "timestamp_ms": 1001}, False),
    ("a later record of the same millisecond", {"offset": 11}, False),
    ("an earlier record", {"offset": 9, "timestamp_ms": 999}, True),
    ("an earlier record of the same millisecond", {"offset": 9}, False),
    ("a lower offset with a newer timestamp: the topic was made anew", {"offset": 0, "timestamp_ms": 2000}, False),
    ("a higher offset with an older timestamp: the producer's clock", {"offset": 11, "timestamp_ms": 1}, False),
    ("the same offset with an older timestamp", {"timestamp_ms": 999}, False),
    ("the same offset of a topic made anew, an error", {"timestamp_ms": 2000, "status": "error"}, False),
    ("another partition, older", {"partition": 1, "offset": 99, "timestamp_ms": 999}, True),
    ("another partition, the same millisecond", {"partition": 1, "offset": 0}, False),
    ("another partition, newer", {"partition": 1, "offset": 0, "timestamp_ms": 1001}, False),
    ("another topic, older", {"topic": "requests.2", "timestamp_ms": 999}, True),
    ("another topic, newer", {"topic": "requests.2", "timestamp_ms": 1001}, False),
    ("another partition, an error, newer", {"partition": 1, "timestamp_ms": 1001, "status": "error"}, False),
    ("an older record, forced", {"offset": 9, "timestamp_ms": 999, "force": True}, False),
    ("the same record, an error over ok, forced", {"status": "error", "force": True}, False),
]


@pytest.mark.parametrize(("change", "refused"), [row[1:] for row in FENCE], ids=[row[0] for row in FENCE])
async def test_the_fence(cache: Cache, change: dict[str, Any], refused: bool) -> None:
    before = entry(**STORED, note="before")
    after = entry(**{**STORED, **change}, note="after")
    assert await cache.store.write([before]) == 0
    assert await cache.store.write([after]) == int(refused)
    assert await cache.get("id") == (before if refused else after).value
    assert await cache.published(2) == [("id", "ok"), ("id", after.status)], "a refused write is published too"


@pytest.mark.parametrize(
    "foreign",
    [b"", b"\x00\xff", b"{}", b'{"schema":1}', b"[" * 400, b'{"schema":1,"status":"ok","source":{"topic":"t"}}'],
    ids=["empty", "binary", "no fields", "cut short", "deep", "half a source"],
)
async def test_what_is_not_a_result_is_overwritten(cache: Cache, foreign: bytes) -> None:
    await cache.put_foreign("id", foreign)
    assert await cache.store.write([entry(timestamp_ms=1)]) == 0
    assert await cache.get("id") == entry(timestamp_ms=1).value


async def test_an_ok_comes_over_the_error_of_the_same_record(cache: Cache) -> None:
    assert await cache.store.write([entry(status="error")]) == 0
    assert await cache.store.write([entry(status="ok")]) == 0
    assert await cache.get("id") == entry(status="ok").value


async def test_one_write_holds_many_and_counts_what_was_refused(cache: Cache) -> None:
    await cache.store.write([entry(f"{number}", offset=100, timestamp_ms=5000) for number in range(0, 64, 2)])
    assert await cache.store.write([entry(f"{number}") for number in range(64)]) == 32
    assert await cache.get("1") == entry("1").value


async def test_the_same_id_twice_in_one_write_ends_as_two_writes_would(cache: Cache) -> None:
    assert await cache.store.write([entry(offset=11, timestamp_ms=1001), entry(offset=10, timestamp_ms=1000)]) == 1
    assert await cache.get("id") == entry(offset=11, timestamp_ms=1001).value


@pytest.mark.parametrize("name", ["{tag}a", "a b\u00e9\U0001f600", "quote\"'\\", "%d%%", "x" * 256])
async def test_any_valid_id_names_its_key_byte_for_byte(cache: Cache, name: str) -> None:
    await cache.store.write([entry(name)])
    assert await cache.get(name) == entry(name).value
    assert await cache.published(1) == [(name, "ok")]


async def test_a_long_topic_and_large_numbers_are_compared_exactly(cache: Cache) -> None:
    place: dict[str, Any] = {"topic": "t" * 249, "partition": 2**31 - 1}
    newest = entry(**place, offset=2**53 - 1, timestamp_ms=10**13 + 1)
    assert await cache.store.write([newest]) == 0
    assert await cache.store.write([entry(**place, offset=2**53 - 2, timestamp_ms=10**13)]) == 1
    assert await cache.get("id") == newest.value


async def test_every_result_has_its_time_to_live(cache: Cache) -> None:
    await cache.store.write([entry()])
    assert 55 <= await cache.ttl_seconds("id") <= 60


records = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from(["ok", "error"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=records)
async def test_any_order_of_writes_ends_as_the_law_says(cache: Cache, writes: list[tuple[Any, ...]]) -> None:
    """The law, one pair at a time: what is stored stays exactly when it is newer, or an ok of the same record."""
    name = uuid.uuid4().hex
    stored: ScoreEntry | None = None
    refused = 0
    fields = ("topic", "partition", "offset", "timestamp_ms", "status")
    entries = [
        entry(name, note=f"{n}", **dict[str, Any](zip(fields, write, strict=True))) for n, write in enumerate(writes)
    ]
    for new in entries:
        if stored is not None and stays(stored, new):
            refused += 1
        else:
            stored = new
    half = len(entries) // 2
    counted = sum([await cache.store.write(part) for part in (entries[:half], entries[half:]) if part])
    assert stored is not None
    assert await cache.get(name) == stored.value
    assert counted == refused


def stays(stored: ScoreEntry, new: ScoreEntry) -> bool:
    older = stored.timestamp_ms > new.timestamp_ms
    if (stored.topic, stored.partition) != (new.topic, new.partition):
        return older
    if stored.offset == new.offset:
        return stored.timestamp_ms == new.timestamp_ms and stored.status == "ok" and new.status == "error"
    return older and stored.offset > new.offset


# ------------------------------------------------------------------------------------------------ Redis alone


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


async def test_a_prefix_belongs_to_one_owner(redis_cache: RedisCache) -> None:
    await redis_cache.store.claim_prefix("cluster/topic/group")
    await redis_cache.store.claim_prefix("cluster/topic/group")
    key = owner_key(redis_cache.prefix)
    with pytest.raises(SettingsInvalid, match=rf"cluster/topic/group.*redis-cli DEL {key}"):
        await redis_cache.store.claim_prefix("cluster/topic/shadow")
    assert await redis_cache.client.get(key) == b"cluster/topic/group"
    assert await redis_cache.client.ttl(key) == -1
    facts = await read_facts(redis_cache.settings)
    assert isinstance(facts, RedisFacts)
    assert facts.prefix_owner == "cluster/topic/group"


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
    began = time.monotonic()
    with pytest.raises(DependencyUnavailable, match="redis"):
        await cache.store.write([entry()])
    assert time.monotonic() - began < TIMEOUT_SECONDS + 0.5
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


def test_a_url_that_is_none_names_the_setting() -> None:
    with pytest.raises(SettingsInvalid, match=r"redis\.url"):
        RedisScores(RedisSettings(url=SecretStr("http://somewhere")))
