"""One server away for a while under load, then back: when results flow again, and that it cost nothing.

`python -m tests.chaos.outage --seconds 60 redis`, or `broker`. Exit code 0: results flowed again within a minute, all
of them are there, in order, and no worker grew or ended; 3: not so.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.console import say
from tests.chaos.deployment import DURABLE, Deployment, serving, under_load
from tests.chaos.drill import CHUNK_RECORDS, DRAIN_SECONDS, MAX_UNCOMMITTED_RECORDS, SETTINGS, STOP_GRACE_SECONDS
from tests.chaos.judgement import Judgement
from tests.chaos.overload import resident_mib
from tests.chaos.running import run_drill
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode

PARTITIONS, WORKERS = 8, 2
SMALL_WINDOWS: dict[str, object] = {"engine.max_num_seqs": 16, "limits.lane_records": 128}
"""Full a few seconds into an outage, so that what still grows then is a leak."""
MOST_RESUMED_SECONDS = 60.0
MOST_GROWTH_MIB = 8.0
"""From the middle of the outage to its end."""
FIRST_RECORDS = 200
CATCH_UP_SECONDS = 240.0
SAMPLE_SECONDS = 0.5


class Server(StrEnum):
    """Which one goes away."""

    BROKER = "broker"
    REDIS = "redis"


@dataclass(slots=True)
class Outage:
    """What an outage cost."""

    resumed_seconds: float = 0.0
    """From the server's start, its own loading included, to the first offset that was committed after it."""
    caught_up_seconds: float = 0.0
    """From the server's start until all that was published by then was committed."""
    memory_mib: list[list[float]] = field(default_factory=list)
    """Of each worker, while the server was away."""
    wrong: list[str] = field(default_factory=list)

    @property
    def growth_mib(self) -> float:
        """The most that any worker grew in the second half of the outage."""
        return max(samples[-1] - samples[len(samples) // 2] for samples in self.memory_mib)

    def __str__(self) -> str:
        return (
            f"results flowed again {self.resumed_seconds:.1f} s after the server's start, and what had waited was done "
            f"after {self.caught_up_seconds:.1f} s; workers of {max(map(max, self.memory_mib)):.0f} MiB grew "
            f"{self.growth_mib:.1f} MiB in the second half of the outage"
        )

    def judge(self, judgement: Judgement) -> None:
        """Adds to `wrong` what the numbers say."""
        self.wrong += judgement.mismatches
        if self.resumed_seconds > MOST_RESUMED_SECONDS:
            self.wrong.append(f"results did not flow within {MOST_RESUMED_SECONDS:g} s")
        if self.growth_mib > MOST_GROWTH_MIB:
            self.wrong.append(f"a worker grew by {self.growth_mib:.1f} MiB")


async def suffer(
    folder: Path, server: Server, seconds: float, requests_per_second: float, tell: Callable[[str], None]
) -> Outage:
    """On servers of its own. Raises what keeps it from its numbers."""
    kafka, redis = KafkaNode(folder / "kafka"), RedisNode(folder / "redis", DURABLE)
    deployment = Deployment(
        kafka,
        redis,
        "outage",
        partitions=PARTITIONS,
        folder=folder,
        settings=SETTINGS | SMALL_WINDOWS,
        stop_seconds=DRAIN_SECONDS + STOP_GRACE_SECONDS,
    )
    outage = Outage()
    async with serving(kafka, redis), deployment:
        slots = [deployment.open_slot(str(number)) for number in range(WORKERS)]
        await asyncio.gather(*(slot.until_running() for slot in slots))
        processes = [slot.processes[-1] for slot in slots]
        load, offsets = deployment.load(requests_per_second), deployment.offsets
        async with under_load(load):
            await offsets.until(
                lambda now: sum(now.values()) > FIRST_RECORDS, "requests are answered", CATCH_UP_SECONDS
            )
            away = kafka if server is Server.BROKER else redis
            await away.kill()
            tell(f"no {server.value} for {seconds:g} s")
            outage.memory_mib = await _watch([process.pid for process in processes], seconds)
            began, before = time.monotonic(), sum(offsets.latest.values())
            await away.start()
            await offsets.until(lambda now: sum(now.values()) > before, "results flow again", CATCH_UP_SECONDS)
            outage.resumed_seconds = time.monotonic() - began
        await deployment.until_all_committed(CATCH_UP_SECONDS)
        outage.caught_up_seconds = time.monotonic() - began
        if [slot.processes[-1] for slot in slots] != processes:
            outage.wrong.append("a worker ended and was started again")
        await asyncio.gather(*(slot.retire() for slot in slots))
        judgement = await deployment.judged(load, MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS)
        tell(str(judgement))
    outage.judge(judgement)
    return outage


async def _watch(pids: list[int], seconds: float) -> list[list[float]]:
    """The memory of each process while it lasts."""
    samples: list[list[float]] = [[] for _ in pids]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one, pid in zip(samples, pids, strict=True):
            one.append(resident_mib(pid))
        await asyncio.sleep(SAMPLE_SECONDS)
    return samples


def main(
    server: Annotated[Server, typer.Argument(help="Which one goes away, by SIGKILL.")],
    seconds: Annotated[float, typer.Option(min=1, help="For how long.")] = 60.0,
    requests_per_second: Annotated[float, typer.Option(min=1)] = 100.0,
) -> None:
    """Two workers under load, and the broker or Redis away for a while."""

    async def drill(folder: Path) -> list[str]:
        outage = await suffer(folder, server, seconds, requests_per_second, say)
        say(str(outage))
        return outage.wrong

    run_drill("outage", drill)


if __name__ == "__main__":
    typer.run(main)
