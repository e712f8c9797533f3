"""A prefix of keys has one owner: claimed once, kept while it runs, brought back when Redis loses it, never shared."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio
from pydantic import SecretStr

from consumer.adapters import redis_claim
from consumer.adapters.redis_scores import RedisScores, read_facts
from consumer.errors import SettingsInvalid
from consumer.key_prefix import CLAIMS_KEY, owner_key
from consumer.sections import RedisSettings
from consumer.startup import RedisFacts
from tests.contract.caches import PATIENCE_SECONDS, RedisCache
from tests.services.redis import RedisNode

OWNER, STRANGER = "cluster/topic/group", "cluster/topic/stranger"
LONG_AGO = 0.0
"""A look that found the prefix free, so long ago that its owner would be back."""

Worker = Callable[..., RedisScores]


@pytest.fixture(params=["redis", "embedded", "redis_cluster"])
def url(request: pytest.FixtureRequest) -> str:
    node = request.getfixturevalue(request.param)
    return str(node.redis_url if request.param == "embedded" else node.url)


@pytest_asyncio.fixture
async def cache(url: str) -> AsyncIterator[RedisCache]:
    cache = RedisCache(url, timeout_seconds=PATIENCE_SECONDS)
    yield cache
    await cache.close()


@pytest_asyncio.fixture
async def worker(cache: RedisCache) -> AsyncIterator[Worker]:
    """`worker(prefix=...)`: another process's store."""
    made: list[RedisScores] = []

    def make(prefix: str = "") -> RedisScores:
        made.append(RedisScores(cache.settings.model_copy(update={"prefix": prefix or cache.prefix})))
        return made[-1]

    yield make
    for store in made:
        await store.close()


@asynccontextmanager
async def running(store: RedisScores, owner: str) -> AsyncIterator["asyncio.Task[None]"]:
    """A worker that has its claim and keeps it."""
    await store.claim_prefix(owner, LONG_AGO)
    keeping: asyncio.Task[None] = asyncio.create_task(store.keep_claim(owner))
    yield keeping
    keeping.cancel()
    with suppress(asyncio.CancelledError, SettingsInvalid):
        await keeping


async def claims(cache: RedisCache) -> dict[str, str]:
    """Of this test's prefixes: who has them."""
    facts = await read_facts(cache.settings)
    assert isinstance(facts, RedisFacts)
    return {claim.prefix: claim.owner for claim in facts.claims or () if claim.prefix.startswith(cache.prefix)}


async def until_claimed(cache: RedisCache, owner: str) -> None:
    """In both places. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await claims(cache) != {cache.prefix: owner} or await legacy(cache) != owner:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def legacy(cache: RedisCache) -> str | None:
    """What version 0.1 finds."""
    found = await cache.client.get(owner_key(cache.prefix))
    return found.decode() if isinstance(found, bytes) else None


async def lose_claims(cache: RedisCache) -> None:
    """As FLUSHALL, an eviction or a failover does."""
    await cache.client.hdel(CLAIMS_KEY, cache.prefix)
    await cache.client.delete(owner_key(cache.prefix))


async def put_claim(cache: RedisCache, since_ms: int, owner: str) -> None:
    await cache.client.hset(CLAIMS_KEY, cache.prefix, f"{since_ms} {since_ms} {owner}")


async def test_a_claimed_prefix_is_refused_to_others_and_never_to_its_owner(cache: RedisCache, worker: Worker) -> None:
    await worker().claim_prefix(OWNER, LONG_AGO)
    began = monotonic()
    await worker().claim_prefix(OWNER, began)
    assert monotonic() - began < redis_claim.QUIET_SECONDS, "its own restart does not wait"
    with pytest.raises(SettingsInvalid, match=rf"{OWNER}.*redis-cli HDEL {CLAIMS_KEY} {cache.prefix}"):
        await worker().claim_prefix(STRANGER, LONG_AGO)
    assert await claims(cache) == {cache.prefix: OWNER}
    assert await legacy(cache) == OWNER
    assert await cache.client.ttl(CLAIMS_KEY) == -1


@pytest.mark.parametrize(("first", "second"), [("", "v2:"), ("v2:", "")], ids=["begins with it", "is its beginning"])
@pytest.mark.parametrize("owner", [OWNER, STRANGER])
async def test_a_prefix_that_shares_keys_with_a_claimed_one_is_refused(
    cache: RedisCache, worker: Worker, first: str, second: str, owner: str
) -> None:
    await worker(cache.prefix + first).claim_prefix(OWNER, LONG_AGO)
    with pytest.raises(SettingsInvalid, match=r"are one key\), which is claimed by"):
        await worker(cache.prefix + second).claim_prefix(owner, LONG_AGO)
    await worker(f"{cache.prefix[:-1]}-v2:").claim_prefix(STRANGER, LONG_AGO)


async def test_the_script_refuses_what_the_look_before_it_would(cache: RedisCache, worker: Worker) -> None:
    """Between look and claim another may have come."""
    await worker().claim_prefix(OWNER, LONG_AGO)
    for suffix, owner in (("", STRANGER), ("v2:", STRANGER), ("v2:", OWNER)):
        late = worker(cache.prefix + suffix)
        with pytest.raises(SettingsInvalid, match=f"claimed by {OWNER}"):
            await late._claim._renew(owner)
    assert await claims(cache) == {cache.prefix: OWNER}


async def test_an_idle_owner_brings_its_lost_claim_back_within_seconds(cache: RedisCache, worker: Worker) -> None:
    async with running(worker(), OWNER) as keeping:
        await lose_claims(cache)
        with pytest.raises(SettingsInvalid, match=f"claimed by {OWNER}"):
            await worker().claim_prefix(STRANGER, monotonic())
        await until_claimed(cache, OWNER)
        await worker().claim_prefix(OWNER, monotonic())
        assert not keeping.done()


async def test_who_claimed_in_the_gap_gives_way_and_says_so(cache: RedisCache, worker: Worker) -> None:
    """As a worker does that came while the owner was frozen."""
    async with running(worker(), OWNER) as keeping:
        keeping.cancel()
        await asyncio.wait([keeping])
        await lose_claims(cache)
        owner = worker()
        async with running(worker(f"{cache.prefix}v2:"), STRANGER) as strangers:
            owner._claim._since_ms = 1
            awake: asyncio.Task[None] = asyncio.create_task(owner.keep_claim(OWNER))
            await until_claimed(cache, OWNER)
            async with asyncio.timeout(PATIENCE_SECONDS):
                with pytest.raises(SettingsInvalid, match=f"claimed by {OWNER}"):
                    await strangers
            assert not awake.done()
            awake.cancel()


async def test_a_worker_that_finds_an_elder_claim_ends_and_says_whose(cache: RedisCache, worker: Worker) -> None:
    """Its Redis was replaced by one where the prefix belongs to somebody else."""
    async with running(worker(), OWNER) as keeping:
        await put_claim(cache, 1, STRANGER)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(SettingsInvalid, match=f"claimed by {STRANGER}"):
                await keeping
    assert await claims(cache) == {cache.prefix: STRANGER}


async def test_of_two_that_come_at_once_one_gets_the_prefix(cache: RedisCache, worker: Worker) -> None:
    owners = [f"cluster/topic/{number}" for number in range(4)]
    took = await asyncio.gather(
        *(worker().claim_prefix(owner, monotonic()) for owner in owners), return_exceptions=True
    )
    assert took.count(None) == 1
    assert sum(isinstance(answer, SettingsInvalid) for answer in took) == len(owners) - 1
    assert await claims(cache) == {cache.prefix: owners[took.index(None)]}


async def test_a_claim_of_version_0_1_lets_its_owner_in_at_once_and_nobody_else(
    cache: RedisCache, worker: Worker
) -> None:
    await cache.client.set(owner_key(cache.prefix), OWNER)
    with pytest.raises(SettingsInvalid, match=rf"{OWNER}.*redis-cli DEL {owner_key(cache.prefix)}"):
        await worker().claim_prefix(STRANGER, LONG_AGO)
    assert await cache.client.hget(CLAIMS_KEY, cache.prefix) is None, "who is refused leaves nothing behind"
    began = monotonic()
    await worker().claim_prefix(OWNER, began)
    assert monotonic() - began < redis_claim.QUIET_SECONDS
    assert await claims(cache) == {cache.prefix: OWNER}


async def test_workers_of_version_0_1_find_the_claim_where_they_look(cache: RedisCache, worker: Worker) -> None:
    """Also where one of them, a stranger, came while it was lost: it looks again and again, and then ends."""
    async with running(worker(), OWNER) as keeping:
        await cache.client.set(owner_key(cache.prefix), STRANGER)
        await until_claimed(cache, OWNER)
        assert not keeping.done()


async def test_a_free_prefix_is_taken_when_two_looks_far_enough_apart_found_it_free(
    cache: RedisCache, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_claim, "QUIET_SECONDS", 1.0)
    began = monotonic()
    await worker().claim_prefix(OWNER, began)
    assert monotonic() - began >= 1.0


async def test_the_claim_is_there_again_after_redis_came_back_empty(tmp_path: Path) -> None:
    node = RedisNode(tmp_path)
    await node.start()
    cache = RedisCache(node.url)
    store = RedisScores(cache.settings)
    async with running(store, OWNER) as keeping:
        await node.kill()
        await asyncio.sleep(2 * redis_claim.RENEW_SECONDS)
        await node.start()
        await until_claimed(cache, OWNER)
        assert not keeping.done()
    await store.close()
    await cache.close()
    await node.stop()


async def test_a_claim_is_written_seldom(cache: RedisCache, worker: Worker) -> None:
    """Looking costs nothing that has to be copied to replicas or a file."""
    store = worker()
    await store.claim_prefix(OWNER, LONG_AGO)
    first = await cache.client.hget(CLAIMS_KEY, cache.prefix)
    await asyncio.sleep(0.01)
    await store._claim._renew(OWNER)
    assert await cache.client.hget(CLAIMS_KEY, cache.prefix) == first


def test_a_store_of_settings_that_were_not_validated_still_names_the_url() -> None:
    settings = RedisSettings.model_construct(**RedisSettings().model_dump() | {"url": SecretStr("http://somewhere")})
    with pytest.raises(SettingsInvalid, match=r"redis\.url"):
        RedisScores(settings)
