"""Incidents of the workers' own processes, and of the group's members; see `strikes.py`."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.chaos.incidents.scene import SESSION_SECONDS, Scene
from tests.chaos.incidents.strikes import repeated


@asynccontextmanager
async def killed(scene: Scene) -> AsyncIterator[None]:
    """As for want of memory."""
    scene.pods[0].process.send(signal.SIGKILL)
    yield


@asynccontextmanager
async def frozen(scene: Scene) -> AsyncIterator[None]:
    scene.pods[0].process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        scene.pods[0].process.send(signal.SIGCONT)


@asynccontextmanager
async def frozen_for_a_session(scene: Scene) -> AsyncIterator[None]:
    async with frozen(scene):
        await asyncio.sleep(1.3 * SESSION_SECONDS)
    yield


@asynccontextmanager
async def stuttering(scene: Scene) -> AsyncIterator[None]:
    """It stands still most of the time, as with a limit on its processor."""

    async def stutter() -> None:
        async with frozen(scene):
            await asyncio.sleep(0.6)
        await asyncio.sleep(0.2)

    async with repeated(stutter):
        yield


@asynccontextmanager
async def all_gone(scene: Scene) -> AsyncIterator[None]:
    for pod in scene.pods:
        await scene.take_down(pod)
    yield
    for pod in scene.pods:
        scene.put_up(pod)


@asynccontextmanager
async def half_rolled_out(scene: Scene) -> AsyncIterator[None]:
    """One pod has another model, until the other has it, too."""
    old, new = scene.pods
    for pod in (new, old):
        await scene.take_down(pod)
        pod.settings["engine.max_model_len"] = 256
        scene.put_up(pod)
        if pod is new:
            yield


@asynccontextmanager
async def strangers(scene: Scene) -> AsyncIterator[None]:
    """A member that comes and goes, with the group's name, and does nothing.

    With another way to assign partitions it would not be let in.
    """

    async def visit() -> None:
        consumer = AIOKafkaConsumer(
            scene.place.topics.requests,
            bootstrap_servers=scene.place.bootstrap_servers,
            group_id=scene.place.name,
            enable_auto_commit=False,
            partition_assignment_strategy=(StickyPartitionAssignor,),
        )
        await consumer.start()
        await asyncio.sleep(1)
        await consumer.stop()
        await asyncio.sleep(1)

    async with repeated(visit):
        yield


@asynccontextmanager
async def one_of_several_killed(scene: Scene) -> AsyncIterator[None]:
    """Again and again, whenever it is there."""

    async def kill() -> None:
        await scene.until(lambda: _is_ready(scene), "all workers are ready")
        os.kill((await scene.pods[0].workers())[1], signal.SIGKILL)
        await scene.until(lambda: _is_unready(scene), "the loss is noticed")

    async with repeated(kill):
        yield


@asynccontextmanager
async def one_of_several_never_starts(scene: Scene) -> AsyncIterator[None]:
    """Its next process stands still before it has loaded its model."""
    pod = scene.pods[0]
    before = (await pod.workers())[1]
    os.kill(before, signal.SIGKILL)

    async def next_one() -> bool:
        return (await pod.workers()).get(1, before) != before

    await scene.until(next_one, "the worker is started again")
    successor = (await pod.workers())[1]
    os.kill(successor, signal.SIGSTOP)
    try:
        yield
    finally:
        # Frozen it would outlast its supervisor.
        os.kill(successor, signal.SIGCONT)


async def _is_ready(scene: Scene) -> bool:
    return not await scene.pods[0].conditions("/readyz")


async def _is_unready(scene: Scene) -> bool:
    return not await _is_ready(scene)
