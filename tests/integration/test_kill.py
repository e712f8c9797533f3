"""Workers that die or freeze under load, judged from outside."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka import ConsumerRecord

from tests.chaos.fleet import Slot
from tests.chaos.judgement import Judgement, Place, judge
from tests.chaos.load import Load
from tests.chaos.offsets import CommittedOffsets
from tests.services.kafka import KafkaNode, create_topics
from tests.services.reading import read_topic
from tests.services.redis import RedisNode

pytestmark = pytest.mark.kafka

KILLS = 10
PARTITIONS = 8
MAX_UNCOMMITTED_RECORDS, CHUNK_RECORDS = 40, 20
STEP_SEQUENCES = 16
STOP_SECONDS = 15.0
CATCH_UP_SECONDS = 60.0
SETTINGS: dict[str, object] = {
    "kafka.session_timeout_seconds": 3,
    "kafka.heartbeat_interval_seconds": 1,
    "kafka.rebalance_timeout_seconds": 10,
    "kafka.request_timeout_seconds": 15,
    "limits.max_uncommitted_records": MAX_UNCOMMITTED_RECORDS,
    "limits.chunk_records": CHUNK_RECORDS,
    "commit.timeout_seconds": 0.5,
    "shutdown.revoke_seconds": 2,
    "shutdown.drain_seconds": 8,
}

MakePlace = Callable[[str], Awaitable[Place]]


@pytest_asyncio.fixture(scope="module")
async def quick_kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaNode]:
    """A broker that lets members have a short session, so that a dead one is not waited for."""
    node = KafkaNode(tmp_path_factory.mktemp("quick-kafka"), {"group.min.session.timeout.ms": "1000"})
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def make_place(quick_kafka: KafkaNode, redis: RedisNode) -> MakePlace:
    """A deployment of that name, with its topics."""

    async def make(name: str) -> Place:
        place = Place(quick_kafka.bootstrap_servers, redis.url, name)
        topics = place.topics
        wanted = dict.fromkeys((topics.requests, topics.results, topics.dead_letters), PARTITIONS)
        await create_topics(place.bootstrap_servers, wanted)
        return place

    return make


@asynccontextmanager
async def kept_up(*slots: Slot) -> AsyncIterator[None]:
    """The slots are filled while this lasts."""
    keeping = [asyncio.create_task(slot.keep_up()) for slot in slots]
    try:
        await asyncio.gather(*(slot.until_running() for slot in slots))
        yield
    finally:
        for task, slot in zip(keeping, slots, strict=True):
            task.cancel()
            slot.abandon()


@asynccontextmanager
async def followed(place: Place) -> AsyncIterator[CommittedOffsets]:
    """The group's offsets, looked at all the time."""
    offsets = CommittedOffsets(place.bootstrap_servers, place.name, place.topics.requests)
    following = asyncio.create_task(offsets.follow(every_seconds=0.1))
    yield offsets
    following.cancel()


@asynccontextmanager
async def under_load(load: Load) -> AsyncIterator[None]:
    """Requests come while this lasts; afterwards every one is acknowledged."""
    loading = asyncio.create_task(load.run())
    yield
    load.stop()
    await loading


async def until_all_committed(place: Place, offsets: CommittedOffsets) -> None:
    ends = await place.ends(place.topics.requests)
    await offsets.until(lambda committed: committed == ends, f"committed is {ends}", CATCH_UP_SECONDS)


async def test_ten_kills_at_random_moments_lose_nothing_and_repeat_little(make_place: MakePlace, tmp_path: Path):
    """kill -9 of the only worker, ten times under load: complete, ordered, duplicates within the bound."""
    place = await make_place("killed")
    choice = random.Random(10)
    slot = Slot("0", tmp_path, SETTINGS | place.settings, STOP_SECONDS)
    load = Load(place.bootstrap_servers, place.topics.requests, PARTITIONS, requests_per_second=300)
    async with kept_up(slot), followed(place) as offsets:
        async with under_load(load):
            for _ in range(KILLS):
                before = sum(offsets.latest.values())
                await offsets.until(lambda now, before=before: sum(now.values()) > before, "it commits", 60)
                await asyncio.sleep(choice.uniform(0, 1))
                await slot.kill()
        await until_all_committed(place, offsets)
        await slot.retire()
    assert not slot.wrong
    assert not offsets.went_back
    judgement = await judge(place, load, KILLS * MAX_UNCOMMITTED_RECORDS)
    assert not judgement.mismatches, judgement.mismatches
    assert judgement.audit.tally.requests == len(load.acknowledged)


async def test_what_a_worker_held_when_it_froze_is_neither_committed_nor_out_of_order(
    make_place: MakePlace, tmp_path: Path
):
    """Frozen beyond its session while another does its work, then thawed: it rejoins as if new."""
    place = await make_place("frozen")
    # A slow engine, so that the worker is frozen with much in memory.
    slow = {"engine.max_num_seqs": STEP_SEQUENCES, "engine.scripted_seconds_per_step": 0.1, "limits.lane_records": 256}
    frozen = Slot("frozen", tmp_path / "frozen", SETTINGS | place.settings | slow, STOP_SECONDS)
    other = Slot("other", tmp_path / "other", SETTINGS | place.settings | slow, STOP_SECONDS)
    load = Load(place.bootstrap_servers, place.topics.requests, PARTITIONS, requests_per_second=400)
    async with kept_up(frozen, other), followed(place) as offsets:
        async with under_load(load):
            await offsets.until(lambda now: sum(now.values()) > 800, "both are at work", 60)
        process = frozen.processes[-1]
        process.send(signal.SIGSTOP)
        assert sum(offsets.latest.values()) < len(load.acknowledged) - 200, "there is much in memory"
        await until_all_committed(place, offsets)
        done, written = dict(offsets.latest), await place.ends(place.topics.results)
        process.send(signal.SIGCONT)
        await process.wait_for_event("lost")
        await other.retire()
        async with under_load(load):
            await offsets.until(lambda now: all(now[one] > done[one] for one in done), "it has rejoined", 60)
        await until_all_committed(place, offsets)
        assert frozen.processes == [process], "it went on"
        await frozen.retire()
    assert not frozen.wrong + other.wrong
    assert not offsets.went_back
    judgement = await judge(place, load, MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS)
    assert not judgement.mismatches, judgement.mismatches
    late = [record for record in await results_of(place, judgement) if record.offset >= written[record.partition]]
    stale = [record for record in late if source_offset(record) < done[record.partition]]
    assert len(stale) <= STEP_SEQUENCES, "at most the writes that were on their way, of what one step had returned"


async def results_of(place: Place, judgement: Judgement) -> list[ConsumerRecord]:
    tally = judgement.audit.tally
    return await read_topic(place.bootstrap_servers, place.topics.results, tally.results + tally.duplicates)


def source_offset(result: ConsumerRecord) -> int:
    return int(dict(result.headers)["scorestream-source-offset"])
