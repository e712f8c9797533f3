"""kill -9 of workers, one after another and several at once, at random moments under load.

`python -m tests.chaos.kills --kills 200`. After every few kills, as soon as what they interrupted is done again, the
duplicates are counted; from time to time, and at the end, everything is judged. Exit code 0: every promise was kept;
3: one was not.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.connections.kafka import Brokers
from producer_tools.console import say
from producer_tools.coordinates import source_of
from producer_tools.kafka import Span, open_reader, read_spans, spans_of
from tests.chaos.deployment import DURABLE, Deployment, serving, under_load
from tests.chaos.drill import DRAIN_SECONDS, SETTINGS, STOP_GRACE_SECONDS
from tests.chaos.fleet import Slot
from tests.chaos.judgement import Judgement, Place
from tests.chaos.load import Load
from tests.chaos.running import run_drill
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode

PARTITIONS = 8
WORKERS = 3
MAX_UNCOMMITTED_RECORDS = 20
"""Small, so that breaking the bound shows: after a kill, a partition delivers that much between two commits."""
VOLLEY_KILLS = (1, 3)
"""So many before what they interrupted is waited for."""
GAP_SECONDS = (0.0, 1.5)
"""Before each. A worker needs longer to start, so some are killed while they start, and some while they join."""
FULL_JUDGEMENT_EVERY_KILLS = 20
CATCH_UP_SECONDS = 300.0
BROKER = {"group.min.session.timeout.ms": "1000"}
QUICK: dict[str, object] = SETTINGS | {
    # A dead worker holds its partitions as long as its session lasts; one that died while it joined holds up the
    # group for the whole rebalance timeout.
    "kafka.session_timeout_seconds": 4,
    "kafka.heartbeat_interval_seconds": 1,
    "kafka.rebalance_timeout_seconds": 15,
    "kafka.request_timeout_seconds": 20,
    "shutdown.revoke_seconds": 2,
    "limits.max_uncommitted_records": MAX_UNCOMMITTED_RECORDS,
    "limits.chunk_records": 10,
}


class DuplicateCount:
    """Counts what comes onto the results topic a second time, reading each result once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._read: dict[int, int] = {}
        self._highest: dict[int, int] = {}

    async def new(self) -> Counter[int]:
        """Since the last call, by partition. Whether first results are in order is judged elsewhere."""
        found: Counter[int] = Counter()
        async with open_reader(Brokers(self._place.bootstrap_servers)) as reader:
            now = await spans_of(reader, self._place.topics.results)
            spans = {one: Span(self._read.get(one.partition, 0), span.end) for one, span in now.items()}
            async for records in read_spans(reader, spans):
                for record in records:
                    source = source_of(record.headers)
                    assert source is not None
                    if source.offset <= self._highest.get(record.partition, -1):
                        found[record.partition] += 1
                    else:
                        self._highest[record.partition] = source.offset
        self._read = {one.partition: span.end for one, span in spans.items()}
        return found


@dataclass(slots=True)
class Losses:
    """What the kills cost. `worst`: duplicates of one partition after one kill, on average over its volley."""

    kills: int = 0
    duplicates: int = 0
    worst: float = 0.0
    longest_catch_up_seconds: float = 0.0

    def __str__(self) -> str:
        per_kill = self.duplicates / max(1, self.kills)
        return (
            f"{self.kills} kills, {self.duplicates} duplicates: {per_kill:.1f} per kill, at most {self.worst:.1f} on a "
            f"partition (bound {MAX_UNCOMMITTED_RECORDS}); longest until all that a volley interrupted was committed: "
            f"{self.longest_catch_up_seconds:.1f} s"
        )


class Kills:
    """One run. `say` is told how it goes."""

    def __init__(self, deployment: Deployment, load: Load, seed: int, say: Callable[[str], None]) -> None:
        self._deployment = deployment
        self._load = load
        self._choice = random.Random(seed)
        self._say = say
        self._slots: list[Slot] = []
        self._duplicates = DuplicateCount(deployment.place)
        self._wrong: list[str] = []
        self.losses = Losses()

    async def run(self, kills: int) -> Judgement:
        """Raises what keeps it from its judgement."""
        self._slots = [self._deployment.open_slot(str(number)) for number in range(WORKERS)]
        await asyncio.gather(*(slot.until_running() for slot in self._slots))
        while True:
            due = min(kills, self.losses.kills + FULL_JUDGEMENT_EVERY_KILLS)
            async with under_load(self._load):
                while self.losses.kills < due:
                    await self._volley(min(self._choice.randint(*VOLLEY_KILLS), due - self.losses.kills))
            await self._deployment.until_all_committed(CATCH_UP_SECONDS)
            if due == kills:
                await asyncio.gather(*(slot.retire() for slot in self._slots))
            judgement = await self._deployment.judged(self._load, self.losses.kills * MAX_UNCOMMITTED_RECORDS)
            judgement.mismatches += self._wrong
            self._say(f"{self.losses}\n    {judgement}")
            if due == kills or judgement.mismatches:
                return judgement

    async def _volley(self, kills: int) -> None:
        for _ in range(kills):
            await asyncio.sleep(self._choice.uniform(*GAP_SECONDS))
            await self._choice.choice(self._slots).kill()
        began = time.monotonic()
        interrupted = await self._deployment.place.ends(self._deployment.place.topics.requests)
        await self._deployment.offsets.until(
            lambda committed: all(committed.get(one, 0) >= end for one, end in interrupted.items()),
            f"what {kills} kills interrupted is committed",
            CATCH_UP_SECONDS,
        )
        losses, found = self.losses, await self._duplicates.new()
        losses.kills += kills
        losses.duplicates += found.total()
        losses.longest_catch_up_seconds = max(losses.longest_catch_up_seconds, time.monotonic() - began)
        for partition, copies in found.items():
            losses.worst = max(losses.worst, copies / kills)
            if copies > (bound := kills * MAX_UNCOMMITTED_RECORDS):
                self._wrong.append(f"{copies} duplicates on partition {partition} of {kills} kills, bound {bound}")


async def drill(folder: Path, kills: int, seed: int, requests_per_second: float) -> list[str]:
    """On servers of its own; what was not as promised."""
    kafka, redis = KafkaNode(folder / "kafka", BROKER), RedisNode(folder / "redis", DURABLE)
    deployment = Deployment(
        kafka,
        redis,
        "kills",
        partitions=PARTITIONS,
        folder=folder,
        settings=QUICK,
        stop_seconds=DRAIN_SECONDS + STOP_GRACE_SECONDS,
    )
    async with serving(kafka, redis), deployment:
        run = Kills(deployment, deployment.load(requests_per_second), seed, say)
        return (await run.run(kills)).mismatches


def main(
    kills: Annotated[int, typer.Option(min=1)] = 200,
    seed: Annotated[int | None, typer.Option(help="Whom and when; default: another every time.")] = None,
    requests_per_second: Annotated[float, typer.Option(min=1)] = 200.0,
) -> None:
    """kill -9 of random ones of three workers at random moments, again and again."""
    chosen = random.randrange(1_000_000) if seed is None else seed
    say(f"seed {chosen}")
    run_drill("kills", lambda folder: drill(folder, kills, chosen, requests_per_second))


if __name__ == "__main__":
    typer.run(main)
