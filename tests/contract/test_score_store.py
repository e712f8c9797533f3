"""What every `ScoreStore` keeps to; the fence is the wire contract's, section 5."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumer.records import ScoreEntry
from tests.contract.caches import Cache, InMemoryCache, RedisCache, entry

PATIENCE_SECONDS = 10.0


@pytest_asyncio.fixture(params=["memory", "redis", "redis-resp2", "embedded", "redis-cluster"])
async def cache(request: pytest.FixtureRequest, store_url: str | None) -> AsyncIterator[Cache]:
    if store_url is None:
        yield InMemoryCache()
        return
    cache = RedisCache(store_url, timeout_seconds=PATIENCE_SECONDS)
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
    if kind == "redis-cluster":
        return str(request.getfixturevalue("redis_cluster").url)
    url: str = request.getfixturevalue("redis").url
    return f"{url}?protocol=2" if kind == "redis-resp2" else url


STORED: dict[str, Any] = {"topic": "requests", "partition": 0, "offset": 10, "timestamp_ms": 1000}
FENCE: list[tuple[str, dict[str, Any], bool]] = [
    # what comes after STORED (status ok), and whether it is refused
    ("the same record again", {}, False),
    ("the same record, an error over ok", {"status": "error"}, True),
    ("a later record", {"offset": 11, "timestamp_ms": 1001}, False),
    ("a later record of the same millisecond", {"offset": 11}, False),
    ("an earlier record", {"offset": 9, "timestamp_ms": 999}, True),
    ("an earlier record of the same millisecond", {"offset": 9}, True),
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
    if (stored.topic, stored.partition) != (new.topic, new.partition):
        return stored.timestamp_ms > new.timestamp_ms
    if stored.offset == new.offset:
        return stored.timestamp_ms == new.timestamp_ms and stored.status == "ok" and new.status == "error"
    return stored.timestamp_ms >= new.timestamp_ms and stored.offset > new.offset
