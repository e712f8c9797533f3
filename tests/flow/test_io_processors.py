"""IO processors in the path: other people's code delays and spoils nobody's requests but its own."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from consumer.records import CustomPooling, EngineInput
from tests.flow.conftest import World

MakeWorld = Callable[..., World]


class Attempt:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.inputs = [EngineInput([20, 21], CustomPooling(None))]


class Obedient:
    """Does what `data` says, in `begin` or in `finish`; `held` waits for `release`."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.begun = 0
        self.alive: weakref.WeakSet[Attempt] = weakref.WeakSet()

    async def begin(self, data: Any) -> Attempt:
        self.begun += 1
        await self._obey(data.get("begin"))
        attempt = Attempt(data)
        self.alive.add(attempt)
        return attempt

    async def finish(self, attempt: Attempt, outputs: list[np.ndarray]) -> Any:
        await self._obey(attempt.data.get("finish"))
        return {"outputs": len(outputs)}

    async def _obey(self, word: str | None) -> None:
        if word == "fail":
            raise KeyError("a bug")
        if word == "held":
            await self.released.wait()


def plugin_world(make_world: MakeWorld, **options: Any) -> tuple[World, Obedient]:
    world, processor = make_world(**options), Obedient()
    world.processors = {"obedient": processor}
    return world, processor


def ask(world: World, count: int = 1, partition: int = 0, **data: Any) -> list[str]:
    fields = {"task": "plugin", "processor": "obedient", "data": data, "query": None, "document": None}
    return world.publish(count, partition, **fields)


async def test_answers_of_processors_and_of_other_tasks_come_in_request_order(make_world: MakeWorld):
    world, _ = plugin_world(make_world)
    await world.start()
    for _ in range(10):
        ask(world)
        world.publish(2)
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    answers = world.answers()
    assert {one["status"] for one in answers} == {"ok"}
    assert answers[0]["results"] == [{"index": 0, "data": {"outputs": 1}}]
    assert answers[0]["usage"] == {"prompt_tokens": 2}


async def test_a_processor_that_is_slow_before_the_engine_holds_its_own_request_and_no_other_partition(
    make_world: MakeWorld,
):
    world, processor = plugin_world(make_world, partitions=2)
    await world.start()
    ask(world, begin="held")
    world.publish(30, partition=0)
    world.publish(100, partition=1)
    await world.until(lambda: world.committed(1) == 100, "the other partition is committed")
    assert world.committed(0) == 0
    processor.released.set()
    await world.until_all_committed()
    world.assert_complete_and_ordered()


async def test_a_processor_that_is_slow_after_the_engine_holds_its_own_request_and_no_other_partition(
    make_world: MakeWorld,
):
    world, processor = plugin_world(make_world, partitions=2)
    await world.start()
    ask(world, finish="held")
    world.publish(30, partition=0)
    world.publish(100, partition=1)
    await world.until(lambda: world.committed(1) == 100, "the other partition is committed")
    assert world.committed(0) == 0
    processor.released.set()
    await world.until_all_committed()
    world.assert_complete_and_ordered()


async def test_a_fault_of_a_processor_is_internal_for_that_one_request(make_world: MakeWorld):
    world, _ = plugin_world(make_world)
    await world.start()
    ask(world)
    ask(world, begin="fail")
    ask(world, finish="fail")
    ask(world)
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    answers = world.answers()
    assert [one["status"] for one in answers] == ["ok", "error", "error", "ok"]
    assert [one["error"]["code"] for one in answers[1:3]] == ["internal", "internal"]
    assert "a bug" not in answers[1]["error"]["message"]
    assert len(world.dead.records[0]) == 2


async def test_a_request_that_expires_while_its_processor_works_is_not_scored(make_world: MakeWorld):
    world, processor = plugin_world(make_world)
    worker = await world.start()
    fields = {"task": "plugin", "processor": "obedient", "data": {"begin": "held"}, "query": None, "document": None}
    world.publish(1, **fields, deadline_unix_ms=worker.clock.unix_ms() + 3_600_000)
    await world.until(lambda: processor.begun == 1, "the processor works")
    worker.clock.ahead_ms = 3_600_000
    processor.released.set()
    await world.until_all_committed()
    assert world.answers()[0]["error"]["code"] == "expired"
    gc.collect()
    assert not processor.alive


async def test_a_worker_that_loses_its_partition_lets_go_of_what_a_processor_has_begun(make_world: MakeWorld):
    world, processor = plugin_world(make_world)
    first = await world.start(shutdown__drain_seconds=0.2)
    ask(world, 5, finish="held")
    await world.until(lambda: len(processor.alive) == 5, "all have begun")
    await first.drain()
    world.workers.remove(first)
    gc.collect()
    assert not processor.alive
    processor.released.set()
    await world.start()
    await world.until_all_committed()
    world.assert_complete_and_ordered()
    assert {one["status"] for one in world.answers()} == {"ok"}
