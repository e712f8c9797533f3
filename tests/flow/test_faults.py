"""Dependencies that fail, and deployments that are broken: nothing lost, in order, bounded."""

import asyncio
import json
import time
from collections.abc import Callable

from consumer.errors import DependencyUnavailable, Hindrance
from consumer.item import HELD_BYTES_PER_RAW_BYTE
from consumer.lane import Held, Hold
from consumer.records import Message
from consumer.sections import LimitSettings
from tests.flow.conftest import MAX_FETCH_BYTES, World

MakeWorld = Callable[..., World]


async def test_refused_write_goes_again_in_order(make_world: MakeWorld):
    world = make_world()
    world.publish(50)
    worker = await world.start()
    worker.results.refuse_next = 3
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert len(world.results.records[0]) == 50


async def test_lost_acknowledgement_makes_duplicates_but_never_disorder(make_world: MakeWorld):
    world = make_world()
    world.publish(50)
    worker = await world.start(limits__chunk_records=10)
    worker.results.lose_next = 2
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert 50 < len(world.results.records[0]) <= 70


async def test_without_redis_nothing_is_committed_and_results_are_not_repeated(make_world: MakeWorld):
    world = make_world()
    world.scores.available = False
    world.publish(30)
    await world.start()
    await world.until(lambda: bool(world.results.records[0]), "results are on the topic")
    written = len(world.results.records[0])
    await asyncio.sleep(0.05)
    assert world.committed() == 0
    assert len(world.results.records[0]) == written
    world.scores.available = True
    await world.until_all_committed()
    assert len(world.results.records[0]) == 30
    assert len(world.scores.values) == 30


async def test_without_dead_letter_topic_the_partition_waits_and_passes_nothing(make_world: MakeWorld):
    world = make_world(2)
    world.publish(3, 0)
    world.publish(1, 0, document="!reject")
    world.publish(3, 0)
    world.publish(50, 1)
    worker = await world.start()
    worker.dead_letters.writer.refuse_next = 4
    await world.until(lambda: world.committed(1) == 50, "the other partition is done")
    assert world.committed(0) <= 3
    await world.until_all_committed()
    assert len(world.dead.records[0]) == 1


async def test_uncommitted_records_are_bounded_while_commits_fail(make_world: MakeWorld):
    world = make_world()
    world.publish(200)
    world.group.commits_open.clear()
    await world.start(limits__max_uncommitted_records=20)
    await world.until(lambda: len(world.results.records[0]) == 20, "emission reached its bound")
    await asyncio.sleep(0.1)
    assert len(world.results.records[0]) == 20
    world.group.commits_open.set()
    await world.until_all_committed()
    world.assert_complete_and_ordered()


async def test_memory_is_bounded_in_bytes_up_to_one_fetch_of_one_partition(make_world: MakeWorld):
    world = make_world(4)
    for partition in range(4):
        world.publish(40, partition, document="!hold " + "w" * 10_000)
    worker = await world.start(limits__memory_bytes=4_000_000)
    await world.until(lambda: not worker.flow.ledger.room(), "nothing more is asked for")
    memory = worker.flow.ledger.memory
    assert memory.charged_bytes <= memory.limit_bytes + MAX_FETCH_BYTES * HELD_BYTES_PER_RAW_BYTE
    world.publish(40, 0)
    received = worker.flow.tally.received
    await asyncio.sleep(0.05)
    assert worker.flow.tally.received == received < 160


async def test_a_quiet_partition_does_not_wait_for_a_hot_one(make_world: MakeWorld):
    world = make_world(2)
    world.publish(3000, 0)
    await world.start()
    await world.until(lambda: len(world.results.records[0]) > 200, "the hot partition flows")
    world.publish(5, 1)
    hot_before = len(world.results.records[0])
    await world.until(lambda: world.committed(1) == 5, "the quiet partition is done")
    assert len(world.results.records[0]) - hot_before < 500


async def test_a_broken_deployment_holds_the_partition_instead_of_draining_it_into_dead_letters(
    make_world: MakeWorld, monkeypatch
):
    world = make_world(2)
    world.publish(5, 0)
    world.publish(60, 1, model="another")
    world.publish(100, 0)
    worker = await world.start(breaker__window_records=10, breaker__share=0.5, breaker__probe_seconds=0.05)
    task = worker.flow._preparer._tasks["score"]
    prepare = task.prepare

    def broken(request, texts):
        raise RuntimeError("a bad deployment")

    await world.until(lambda: world.committed(0) == 105, "the first partition is answered")
    monkeypatch.setattr(task, "prepare", broken)
    world.publish(100, 0)
    lane = next(lane for lane in worker.flow.ledger.lanes.values() if lane.partition.partition == 0)
    await world.until(lambda: lane.breaker.open, "the partition is held")
    held_at = world.committed(0)
    await world.until(lambda: lane.items[0].attempt > 3, "it was probed")
    assert held_at <= world.committed(0) < 105 + 10
    assert len(world.dead.records[0]) < 10
    why = lane.holds[Hold.BREAKER].why
    assert why.startswith("too many answers are internal; offset "), why
    monkeypatch.setattr(task, "prepare", prepare)
    await world.until(lambda: world.committed(0) == 205, "it goes on after the repair")
    assert world.first_offsets(0) == list(range(205))
    assert world.committed(1) <= 10, "nine were dead letters before the partition was held"


async def test_answers_that_still_leave_do_not_hide_that_the_partition_is_held(make_world: MakeWorld):
    world = make_world()
    world.publish(5)
    worker = await world.start(breaker__window_records=10, breaker__share=0.5)
    worker.results.open.clear()
    await world.until(lambda: bool(worker.flow.ledger.lanes), "the partition is assigned")
    [lane] = worker.flow.ledger.lanes.values()
    await world.until(lambda: lane.outstanding is not None, "good answers are on their way")
    world.publish(50, model="another")
    await world.until(lambda: lane.breaker.open, "the partition is held")
    leaving = len(lane.outstanding.items)
    worker.results.open.set()
    await world.until(lambda: world.committed() == leaving, "the good answers are committed")
    assert lane.held_by == "breaker"


async def test_the_breaker_may_open_while_other_micro_batches_are_being_shaped(make_world: MakeWorld, monkeypatch):
    world = make_world()
    world.publish(300)
    worker = await world.start(
        breaker__window_records=5, breaker__share=0.5, breaker__probe_seconds=0.05, micro_batch__max_records=4
    )
    task = worker.flow._preparer._tasks["score"]
    shape = task.shape

    def slow_and_broken(prepared, outputs):
        time.sleep(0.002)
        raise RuntimeError("a bad deployment")

    monkeypatch.setattr(task, "shape", slow_and_broken)
    lane = next(iter(worker.flow.ledger.lanes.values()))
    await world.until(lambda: lane.items and lane.items[0].attempt > 3, "it is held and was probed")
    monkeypatch.setattr(task, "shape", shape)
    await world.until_all_committed()
    world.assert_complete_and_ordered()


async def test_a_write_that_is_not_let_in_says_what_hinders_the_whole_worker(make_world: MakeWorld, monkeypatch):
    world = make_world()
    worker = await world.start()
    [lane] = worker.flow.ledger.lanes.values()

    async def refuse(*_write: object) -> None:
        raise DependencyUnavailable("kafka", "results: refuses the user", Hindrance.AUTHENTICATION_FAILED)

    with monkeypatch.context() as refused:
        refused.setattr(worker.results, "write", refuse)
        world.publish(1)
        await world.until(lambda: bool(lane.holds), "it is held")
        expected = {Hold.RESULTS_TOPIC: Held("kafka: results: refuses the user", Hindrance.AUTHENTICATION_FAILED)}
        assert lane.holds == expected
    await world.until_all_committed()
    assert lane.holds == {}


async def test_records_that_weigh_more_than_a_partitions_part_of_the_memory_are_answered_and_so_is_what_follows(
    make_world: MakeWorld,
):
    """The defaults, 64 partitions, and requests of 904 kB to one of them: 10 MB in memory, and 8 MB a partition."""
    world = make_world(64)
    documents = [{"text": "w" * 890} for _ in range(1000)]
    for number in range(60):
        request = {"id": f"large-{number}", "task": "rerank", "query": "q", "documents": documents}
        value = json.dumps(request).encode()
        assert 895_000 < len(value) < 910_000
        world.requests.append(7, Message(None, value, ()))
    defaults = LimitSettings()
    worker = await world.start(
        limits__lane_records=defaults.lane_records,
        engine__max_num_seqs=256,
        engine__max_num_batched_tokens=16_384,
    )
    world.publish(1, 7)
    await world.until_all_committed(timeout_seconds=60)
    world.assert_complete_and_ordered()
    assert {answer["status"] for answer in world.answers(7)} == {"ok"}
    assert worker.flow.ledger.memory.limit_bytes == defaults.memory_bytes
