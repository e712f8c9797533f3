"""Workers that come and go: partitions change hands in order, in time, and without a copy."""

import asyncio
import json
import signal
import time
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from aiokafka import ConsumerRecord

from tests.chaos.generations import generation
from tests.chaos.judgement import Place, judge
from tests.chaos.relay import Relay
from tests.chaos.storm import Storm, explain
from tests.integration.cases.case import (
    CATCH_UP_SECONDS,
    CHUNK_RECORDS,
    PARTITIONS,
    REVOKE_SECONDS,
    Case,
    MakeCase,
    requests,
    under_load,
)
from tests.services.kafka import KafkaNode
from tests.services.probe import Probe
from tests.services.process import free_port
from tests.services.redis import RedisNode

pytestmark = pytest.mark.kafka

GENERATIONS_PER_MOVE = 2
HANDOVER_SECONDS = 10
"""The rebalance timeout: a member that does not give its partitions up by then is left behind."""
LONG_SESSION_SECONDS = 20
"""Where nobody dies a long session costs nothing, and a busy machine may send a heartbeat late."""
SLOW: dict[str, object] = {
    "kafka.session_timeout_seconds": LONG_SESSION_SECONDS,
    "engine.max_num_seqs": 4,
    "engine.scripted_seconds_per_step": 0.08,
    "micro_batch.max_records": 4,
    "limits.lane_records": 512,
}
"""50 requests a second, and room for much that waits."""


def named(name: str) -> dict[str, object]:
    """So that the results tell which worker wrote them."""
    return {"engine.served_names": name}


def writer(result: ConsumerRecord) -> str:
    """Which worker wrote it, if they are `named`."""
    return str(json.loads(result.value)["model"]["name"])


def by_partition(results: list[ConsumerRecord]) -> dict[int, list[ConsumerRecord]]:
    """In offset order."""
    return {number: list(some) for number, some in groupby(results, lambda result: result.partition)}


async def publish_everywhere(case: Case, count: int, first: int = 0) -> int:
    """So many requests on each partition; returns how many those are."""
    for partition in range(PARTITIONS):
        await case.publish(requests(count, first=first + partition * count), partition)
    return PARTITIONS * count


async def generations(case: Case) -> int:
    """Of the group so far."""
    return await generation(case.kafka.bootstrap_servers, case.place.name)


async def test_the_old_owner_finishes_what_is_in_its_engine_and_gives_its_backlog_up_unscored(make_case: MakeCase):
    """In the middle of batches, there and back again: every result once, and none of the old owner after the new's."""
    case = await make_case(settings=SLOW)
    published = await publish_everywhere(case, 150)
    old = await case.started("old", named("old"))
    await case.results(60)
    new = await case.started("new", named("new") | {"engine.scripted_seconds_per_step": 0.01})
    await case.until_all_committed()
    assert await generations(case) <= 2 * GENERATIONS_PER_MOVE
    assert await new.stop() == 0
    published += await publish_everywhere(case, 25, first=published)
    await case.until_all_committed()
    assert await generations(case) <= 3 * GENERATIONS_PER_MOVE
    assert await old.stop() == 0
    assert (await case.verified()).tally.duplicates == 0
    results = await case.results(published)
    owners = [[name for name, _ in groupby(map(writer, some))] for some in by_partition(results).values()]
    assert sorted(map(tuple, owners)) == [("old",), ("old",), ("old", "new", "old"), ("old", "new", "old")]
    written = Counter(map(writer, results))
    assert (await old.wait_for_event("totals"))["scored_sequences"] == written["old"], "nothing was scored in vain"
    assert (await new.wait_for_event("totals"))["scored_sequences"] == written["new"]
    for some in by_partition(results).values():
        for before, after in pairwise(some):
            if (writer(before), writer(after)) == ("old", "new"):
                assert after.timestamp - before.timestamp < 1000 * HANDOVER_SECONDS


async def test_what_is_done_but_not_committed_is_committed_before_the_partition_or_the_worker_goes(
    make_case: MakeCase,
):
    """With a commit period of a minute: whoever comes next begins where the others have come to."""
    case = await make_case(settings={"commit.interval_ms": 60_000})
    published = await publish_everywhere(case, 30)
    first = await case.started("first")
    await case.results(published)
    await case.offsets.look()
    assert case.offsets.latest == {}, "nothing is committed of its own accord"
    second = await case.started("second")
    await case.until_all_committed()
    published += await publish_everywhere(case, 5, first=published)
    await case.results(published)
    assert [await first.stop(), await second.stop()] == [0, 0]
    await case.offsets.look()
    assert case.offsets.latest == await case.place.ends(case.place.topics.requests)
    assert (await case.verified()).tally.duplicates == 0
    for worker in (first, second):
        assert (await worker.wait_for_event("totals"))["answered"] > 0


async def test_a_worker_that_is_held_gives_its_partitions_up_in_time_and_takes_no_more_than_it_may(
    make_case: MakeCase, redis: RedisNode
):
    """Redis answers the other worker only. The next owner goes on from the first request that was held."""
    lane_records = 64
    limits = {"limits.lane_records": lane_records, "engine.max_num_seqs": 8, "shutdown.drain_seconds": REVOKE_SECONDS}
    case = await make_case(settings=limits)
    relay_port = free_port()
    async with Relay(relay_port, redis.port) as relay:
        held = await case.started("held", {"redis.url": f"redis://127.0.0.1:{relay_port}/0"} | named("held"))
        stalling = asyncio.create_task(relay.stall(3600))
        published = await publish_everywhere(case, 250)
        await held.wait_for_event("held")
        other = await case.started("other", named("other"))
        began = time.monotonic()
        await case.offsets.until(
            lambda committed: list(committed.values()).count(250) == PARTITIONS // 2, "half is done", CATCH_UP_SECONDS
        )
        assert time.monotonic() - began < HANDOVER_SECONDS
        assert held.exit_code is None
        assert await held.stop() == 0
        await case.until_all_committed()
        stalling.cancel()
    assert await other.stop() == 0
    tally = (await case.verified()).tally
    # A chunk of each partition in the revoke, and of each that it then had in the drain.
    most = (PARTITIONS + PARTITIONS // 2) * CHUNK_RECORDS
    assert tally.duplicates <= most, "what the held worker wrote and could not commit"
    results = await case.results(published)
    assert Counter(map(writer, results))["other"] == published
    assignments = PARTITIONS + PARTITIONS // 2
    assert (await held.wait_for_event("totals"))["received"] <= assignments * lane_records


async def test_scaling_up_and_down_pauses_no_partition_for_longer_than_a_handover(make_case: MakeCase):
    """From one worker to nine on eight partitions, and back to two: who has no partition is idle and ready."""
    partitions = 8
    case = await make_case(partitions, settings={"kafka.session_timeout_seconds": LONG_SESSION_SECONDS})
    load = case.load(partitions, requests_per_second=200)
    running = [await case.started("0")]
    async with under_load(load):
        for count in (3, 9):
            joining = [case.worker(f"{number}", probed_at(free_port())) for number in range(len(running), count)]
            await asyncio.gather(*(worker.start() for worker in joining))
            running += joining
            await case.until_members(count)
        for worker in joining:
            await Probe(int(worker.events()[0]["settings"]["health"]["port"])).until_ready()
        leaving = running[2:]
        for worker in leaving:
            worker.send(signal.SIGTERM)
        assert [await worker.wait() for worker in leaving] == [0] * 7
        await case.until_members(2)
    await case.until_all_committed()
    assert [await worker.stop() for worker in running[:2]] == [0, 0]
    judgement = await judge(case.place, load, 0)
    assert not judgement.mismatches, judgement.mismatches
    results = await case.results(judgement.audit.tally.results)
    for some in by_partition(results).values():
        assert max(after.timestamp - before.timestamp for before, after in pairwise(some)) < 1000 * HANDOVER_SECONDS


def probed_at(port: int) -> dict[str, object]:
    """Settings of a worker that tells its health."""
    return {"health.host": "127.0.0.1", "health.port": port}


async def test_a_storm_of_rebalances_costs_neither_a_request_nor_its_order_nor_a_worker(
    quick_kafka: KafkaNode, redis: RedisNode, tmp_path: Path
):
    """A worker joins or leaves every two seconds, every other one by kill -9, while two stay."""
    place = Place(quick_kafka.bootstrap_servers, redis.url, f"storm.{tmp_path.name[-8:]}")
    weather = await Storm(place, tmp_path, 100, print).run(seconds=16)
    assert weather.kills > 0
    assert not weather.judgement.mismatches, explain(weather, tmp_path)
