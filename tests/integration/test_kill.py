"""Workers that die or freeze under load, judged from outside."""

import asyncio
import random
import signal

import pytest

from tests.chaos.judgement import judge
from tests.integration.cases.case import (
    CHUNK_RECORDS,
    MAX_UNCOMMITTED_RECORDS,
    MakeCase,
    kept_up,
    source_offset,
    under_load,
)

pytestmark = pytest.mark.kafka

KILLS = 10
PARTITIONS = 8
STEP_SEQUENCES = 16


async def test_ten_kills_at_random_moments_lose_nothing_and_repeat_little(make_case: MakeCase):
    """kill -9 of the only worker, ten times under load: complete, ordered, duplicates within the bound."""
    case = await make_case(PARTITIONS)
    choice = random.Random(10)
    slot = case.slot("0")
    load = case.load(PARTITIONS, requests_per_second=300)
    async with kept_up(slot), case.followed() as offsets:
        async with under_load(load):
            for _ in range(KILLS):
                before = sum(offsets.latest.values())
                await offsets.until(lambda now, before=before: sum(now.values()) > before, "it commits", 60)
                await asyncio.sleep(choice.uniform(0, 1))
                await slot.kill()
        await case.until_all_committed()
        await slot.retire()
    assert not slot.wrong
    assert not offsets.went_back
    judgement = await judge(case.place, load, KILLS * MAX_UNCOMMITTED_RECORDS)
    assert not judgement.mismatches, judgement.mismatches
    assert judgement.audit.tally.requests == len(load.acknowledged)


async def test_what_a_worker_held_when_it_froze_is_neither_committed_nor_out_of_order(make_case: MakeCase):
    """Frozen beyond its session while another does its work, then thawed: it rejoins as if new."""
    # A slow engine, so that the worker is frozen with much in memory.
    slow = {"engine.max_num_seqs": STEP_SEQUENCES, "engine.scripted_seconds_per_step": 0.1, "limits.lane_records": 256}
    case = await make_case(PARTITIONS, settings=slow)
    frozen, other = case.slot("frozen"), case.slot("other")
    load = case.load(PARTITIONS, requests_per_second=400)
    async with kept_up(frozen, other), case.followed() as offsets:
        async with under_load(load):
            await offsets.until(lambda now: sum(now.values()) > 800, "both are at work", 60)
        process = frozen.processes[-1]
        process.send(signal.SIGSTOP)
        assert sum(offsets.latest.values()) < len(load.acknowledged) - 200, "there is much in memory"
        await case.until_all_committed()
        done, written = dict(offsets.latest), await case.place.ends(case.place.topics.results)
        process.send(signal.SIGCONT)
        await process.wait_for_event("lost")
        await other.retire()
        async with under_load(load):
            await offsets.until(lambda now: all(now[one] > done[one] for one in done), "it has rejoined", 60)
        await case.until_all_committed()
        assert frozen.processes == [process], "it went on"
        await frozen.retire()
    assert not frozen.wrong + other.wrong
    assert not offsets.went_back
    judgement = await judge(case.place, load, MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS)
    assert not judgement.mismatches, judgement.mismatches
    tally = judgement.audit.tally
    results = await case.results(tally.results + tally.duplicates)
    late = [result for result in results if result.offset >= written[result.partition]]
    stale = [result for result in late if source_offset(result) < done[result.partition]]
    assert len(stale) <= PARTITIONS * CHUNK_RECORDS, "at most the one chunk of each partition that was on its way"
