"""One hot partition alone, and then beside seven idle ones: how much of its rate it keeps.

`python -m tests.chaos.hot`. Both are measured in turn, several times, each from a backlog on topics of its own with a
fast engine; the medians count, because what else a machine does strikes single runs. Exit code 0: the hot partition
keeps its rate; 3: it does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from producer_tools.console import say
from tests.chaos.answers import OrderWatch, answers, steady_rate
from tests.chaos.deployment import Deployment, serving, under_load
from tests.chaos.load import Load, Mix
from tests.chaos.running import run_drill
from tests.services.kafka import KafkaNode
from tests.services.process import wait_until
from tests.services.redis import RedisNode

IDLE_PARTITIONS = 7
LEAST_RATIO = 0.95
BACKLOG_PER_SECOND = 20_000.0
PUBLISH_SECONDS, CATCH_UP_SECONDS, STOP_SECONDS = 120.0, 240.0, 60.0
SETTINGS: dict[str, object] = {"engine.scripted_seconds_per_step": 0}
MIX = Mix(b'{"id":"ID","task":"score","query":"q","document":"some words"}')


@dataclass(slots=True)
class Rates:
    """Answers per second of the hot partition, one for each measurement."""

    alone: list[float] = field(default_factory=list)
    beside_idle: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return median(self.beside_idle) / median(self.alone)

    def __str__(self) -> str:
        alone, beside = (", ".join(f"{rate:.0f}" for rate in rates) for rates in (self.alone, self.beside_idle))
        return f"alone {alone}/s; beside {IDLE_PARTITIONS} idle ones {beside}/s; ratio {self.ratio:.3f}"


async def measure(folder: Path, records: int, times: int, tell: Callable[[str], None]) -> Rates:
    """On servers of its own. Raises what keeps it from its numbers."""
    found = Rates()
    kafka, redis = KafkaNode(folder / "kafka"), RedisNode(folder / "redis")
    async with serving(kafka, redis):
        for number in range(times):
            for idle, rates in ((0, found.alone), (IDLE_PARTITIONS, found.beside_idle)):
                name = f"hot-{number}-with-{idle}-idle"
                deployment = Deployment(
                    kafka,
                    redis,
                    name,
                    partitions=1 + idle,
                    folder=folder,
                    settings=SETTINGS,
                    stop_seconds=STOP_SECONDS,
                )
                async with deployment:
                    rates.append(await _rate(deployment, records, found))
                tell(f"{name}: {rates[-1]:.0f}/s")
    if found.ratio < LEAST_RATIO:
        found.wrong.append(f"the ratio is below {LEAST_RATIO}")
    return found


async def _rate(deployment: Deployment, records: int, found: Rates) -> float:
    place = deployment.place
    load = Load(place.bootstrap_servers, place.topics.requests, 1, BACKLOG_PER_SECOND, MIX)
    async with under_load(load):
        await wait_until(lambda: len(load.acknowledged) >= records, "the backlog", PUBLISH_SECONDS)
    slot = deployment.open_slot(place.name)
    await slot.until_running()
    # A partition that never had a record may have no committed offset.
    ends = await place.ends(place.topics.requests)
    await deployment.offsets.until(lambda committed: committed.get(0) == ends[0], "all is done", CATCH_UP_SECONDS)
    await slot.retire()
    order = OrderWatch()
    moments = []
    async for answer in answers(place):
        order.saw(answer)
        moments.append(answer.written_at)
    found.wrong += order.breaches[:5] + slot.wrong
    return steady_rate(moments)


def main(
    records: Annotated[int, typer.Option(min=1000, help="Of the backlog.")] = 40_000,
    times: Annotated[int, typer.Option(min=1, help="Of each measurement; single ones vary by a sixth.")] = 11,
) -> None:
    """The rate of one hot partition, alone and beside seven idle ones."""

    async def drill(folder: Path) -> list[str]:
        found = await measure(folder, records, times, say)
        say(str(found))
        return found.wrong

    run_drill("hot", drill)


if __name__ == "__main__":
    typer.run(main)
