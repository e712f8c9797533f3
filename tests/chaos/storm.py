"""A rebalance storm: a worker joins or leaves every two seconds while two stay, under load; then the judgement.

`python -m tests.chaos.storm --minutes 2`. Exit code 0: every promise was kept; 3: one was not.
"""

import asyncio
import logging
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.console import ExitCode, say
from tests.chaos.drill import (
    CATCH_UP_SECONDS,
    CHUNK_RECORDS,
    DRAIN_SECONDS,
    MAX_UNCOMMITTED_RECORDS,
    SETTINGS,
    STOP_GRACE_SECONDS,
)
from tests.chaos.fleet import Slot
from tests.chaos.generations import generation
from tests.chaos.judgement import Judgement, Place, judge
from tests.chaos.load import Load
from tests.chaos.offsets import CommittedOffsets
from tests.chaos.running import log_tails
from tests.services.kafka import KafkaNode, create_topics
from tests.services.redis import RedisNode

PARTITIONS = 8
STAYING_WORKERS = 2
PASSING_WORKERS = 2
"""So many of those that come and go are there at a time, so that one has joined before it has to leave."""
MOVE_EVERY_SECONDS = 2.0
GENERATIONS_PER_MOVE = 2
LOOK_SECONDS = 0.5
SHORT_SESSION: dict[str, object] = {"kafka.session_timeout_seconds": 3, "kafka.heartbeat_interval_seconds": 1}
"""A killed worker holds up every rebalance until its session ends: shorter than the time to the next kill."""
BROKER = {"group.min.session.timeout.ms": "1000"}
"""Properties of a broker that allows such sessions."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How it was. `kills` are among the `leaves`."""

    judgement: Judgement
    joins: int
    leaves: int
    kills: int
    generations: int

    def __str__(self) -> str:
        return (
            f"{self.joins} joins, {self.leaves} leaves ({self.kills} by kill -9), {self.generations} generations; "
            f"{self.judgement}"
        )


class Storm:
    """One storm over the topics of one deployment, which it makes. `say` is told each move as it begins."""

    def __init__(self, place: Place, folder: Path, requests_per_second: float, say: Callable[[str], None]) -> None:
        self._place = place
        self._folder = folder
        self._say = say
        self._load = Load(place.bootstrap_servers, place.topics.requests, PARTITIONS, requests_per_second)
        self._offsets = CommittedOffsets(place.bootstrap_servers, place.name, place.topics.requests)
        self._slots: list[Slot] = []
        self._keeping: list[asyncio.Task[None]] = []
        self._leaves = self._kills = 0

    async def run(self, seconds: float) -> Weather:
        """The storm lasts so long; then what is left is done, and everybody leaves. Raises what keeps it from that."""
        place, topics = self._place, self._place.topics
        for topic in (topics.requests, topics.results, topics.dead_letters):
            await create_topics(place.bootstrap_servers, {topic: PARTITIONS})
        try:
            staying = [self._open_slot(f"stays-{number}") for number in range(STAYING_WORKERS)]
            await asyncio.gather(*(slot.until_running() for slot in staying))
            async with asyncio.TaskGroup() as tasks:
                loading = tasks.create_task(self._load.run())
                looking = tasks.create_task(self._offsets.follow(LOOK_SECONDS))
                passing = await self._strike(round(seconds / MOVE_EVERY_SECONDS))
                self._load.stop()
                await loading
                looking.cancel()
            ends = await place.ends(topics.requests)
            await self._offsets.until(lambda committed: committed == ends, f"committed is {ends}", CATCH_UP_SECONDS)
            generations = await generation(place.bootstrap_servers, place.name)
            await asyncio.gather(*(slot.retire() for slot in (*staying, *passing)))
        finally:
            for keeping in self._keeping:
                keeping.cancel()
            for slot in self._slots:
                slot.abandon()
        return await self._judge(generations)

    async def _strike(self, moves: int) -> Iterable[Slot]:
        """Join and leave in turn; SIGTERM and kill -9 in turn for those who leave. Returns those who are left.

        A machine too slow for that pace makes the moves late, never more of them at once.
        """
        passing: deque[Slot] = deque()
        began = time.monotonic()
        for number in range(moves):
            await asyncio.sleep(max(0.0, began + (number + 1) * MOVE_EVERY_SECONDS - time.monotonic()))
            if len(passing) < PASSING_WORKERS:
                passing.append(self._open_slot(f"passes-{number}"))
                self._say(f"worker {passing[-1].name} joins")
            else:
                await self._part_with(passing.popleft())
        return passing

    async def _part_with(self, slot: Slot) -> None:
        await slot.until_running()
        self._leaves += 1
        if self._leaves % 2:
            self._say(f"SIGTERM to worker {slot.name}")
            await slot.retire()
        else:
            self._kills += 1
            self._say(f"kill -9 of worker {slot.name}")
            await slot.remove()

    async def _judge(self, generations: int) -> Weather:
        joins = len(self._slots)
        # A change of owner repeats what was delivered and not committed, and one write may be on its way twice.
        bound = (self._kills + 1) * (MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS)
        judgement = await judge(self._place, self._load, bound)
        judgement.mismatches += self._offsets.went_back
        judgement.mismatches += [one for slot in self._slots for one in slot.wrong]
        judgement.mismatches += [
            f"worker {slot.name} was started {len(slot.processes)} times"
            for slot in self._slots
            if len(slot.processes) > 1
        ]
        if generations > (most := GENERATIONS_PER_MOVE * (joins + self._leaves)):
            judgement.mismatches.append(f"{generations} generations, at most {most} are called for")
        return Weather(judgement, joins, self._leaves, self._kills, generations)

    def _open_slot(self, name: str) -> Slot:
        settings = SETTINGS | SHORT_SESSION | self._place.settings
        slot = Slot(name, self._folder / f"worker-{name}", settings, DRAIN_SECONDS + STOP_GRACE_SECONDS)
        self._slots.append(slot)
        self._keeping.append(asyncio.create_task(slot.keep_up()))
        return slot


def explain(weather: Weather, folder: Path) -> str:
    """What is needed to find out why: the mismatches with their coordinates, the ends of the logs."""
    return "\n".join([str(weather), *weather.judgement.mismatches, log_tails(folder)])


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long workers come and go.")] = 2.0,
    requests_per_second: Annotated[float, typer.Option(min=1)] = 150.0,
) -> None:
    """Workers come and go on Apache Kafka and Redis under load, then the judgement."""
    folder = Path(tempfile.mkdtemp(prefix="scorestream-storm-"))
    say(f"logs in {folder}")
    # The drill's own clients, while the servers stop.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    weather = asyncio.run(_with_servers(folder, 60 * minutes, requests_per_second))
    if weather.judgement.mismatches:
        say(explain(weather, folder))
        raise typer.Exit(ExitCode.MISMATCH)
    say(str(weather))
    shutil.rmtree(folder)


async def _with_servers(folder: Path, seconds: float, requests_per_second: float) -> Weather:
    kafka, redis = KafkaNode(folder / "kafka", BROKER), RedisNode(folder / "redis")
    async with AsyncExitStack() as servers:
        for server in (kafka, redis):
            servers.push_async_callback(server.kill)
            await server.start()
        place = Place(kafka.bootstrap_servers, redis.url, "storm")
        return await Storm(place, folder, requests_per_second, say).run(seconds)


if __name__ == "__main__":
    typer.run(main)
