"""One incident for somebody who is not told which: Prometheus, the worker's port and the documents have to do."""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

from tests.chaos.incidents.catalogue import CATALOGUE
from tests.chaos.incidents.scene import Scene, Servers

NAME, RUNBOOK = "drill", "docs/operate.md"


async def play(servers: Servers, seed: int, minutes: float, folder: Path, tell: Callable[[str], None]) -> None:
    """Until Enter is pressed, or so many minutes have passed; then it is told what it was, and undone."""
    incident = random.Random(seed).choice(CATALOGUE)
    scene = Scene(servers, NAME, folder / NAME, incident.setting)
    async with scene.open():
        tell("\n".join(_addresses(scene, folder)))
        began = time.monotonic()
        async with incident.strike(scene):
            await _enter_or(minutes)
            # Before it is undone, which takes its time and may fail.
            fired = sorted(await scene.fired(time.monotonic() - began))
            alerts = ", ".join(f"{RUNBOOK}#{name.lower()}" for name in incident.alerts)
            tell(f"it is {incident.name}: {alerts}; what fired: {', '.join(fired) or 'nothing'}; undoing it")
        tell(f"{incident.name} is undone")


def _addresses(scene: Scene, folder: Path) -> Iterator[str]:
    """What there is to look at, each with what it is."""
    yield f"Prometheus: {scene.prometheus.url}/alerts"
    for pod in scene.pods:
        yield f"{pod.name}: {pod.url}/metrics, {pod.url}/readyz, {pod.url}/livez; its logs: {folder / NAME / pod.name}"
    topics = scene.place.topics
    yield (
        f"Kafka, without credentials: {scene.place.bootstrap_servers}; topics: {topics.requests}, {topics.results}, "
        f"{topics.dead_letters}; group: {scene.place.name}"
    )
    yield f"Redis: {scene.place.redis_url}"


async def _enter_or(minutes: float) -> None:
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        # Not at the end of a file: who has no terminal waits for the time.
        if sys.stdin.readline():
            loop.call_soon_threadsafe(pressed.set)

    # Nobody waits for it in the end, as for a thread of the loop's own.
    Thread(target=read, daemon=True).start()
    try:
        async with asyncio.timeout(60 * minutes):
            await pressed.wait()
    except TimeoutError:
        pass
