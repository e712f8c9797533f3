"""Three times as many requests as the engine can score, for minutes: what becomes of memory and of goodput.

`python -m tests.chaos.overload --minutes 10 [--timeout-ms 2000]`. The capacity is measured first, on the same worker,
from a backlog. Without deadlines the surplus stays in Kafka; with them it is answered `expired`, and what is scored in
time must still be as much as the engine can do. Exit code 0: all was as promised; 3: something was not.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from producer_tools.console import say
from schemas.errors import ErrorCode
from tests.chaos.answers import OrderWatch, answers, steady_rate
from tests.chaos.deployment import Deployment, serving, under_load
from tests.chaos.fleet import Slot
from tests.chaos.load import Load, Mix
from tests.chaos.running import run_drill
from tests.services.kafka import KafkaNode
from tests.services.process import wait_until
from tests.services.redis import RedisNode

PARTITIONS = 8
OVERLOAD = 3.0
LEAST_GOODPUT, LEAST_OFFERED = 0.95, 0.95
"""Of the capacity; of the overload, else the machine was too busy to tell."""
MOST_GROWTH = 1.1
"""Of memory between the first half and the second."""
STEP_SEQUENCES, STEP_SECONDS = 32, 0.1
"""An engine so slow that everything else has time: 320 requests per second."""
BACKLOG_SECONDS = 15.0
"""Of the engine's work."""
BACKLOG_PER_SECOND = 3000.0
SETTLING_SECONDS = 5.0
"""From the beginning of the overload: the engine was idle before."""
SAMPLE_SECONDS = 1.0
CATCH_UP_SECONDS, STOP_SECONDS = 120.0, 60.0
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Overload:
    """What was measured. Rates per second; `memory_mib`: samples of the worker's resident set."""

    capacity: float = 0.0
    offered: float = 0.0
    goodput: float = 0.0
    processors: float = 0.0
    """That the worker kept busy. Near 1 it is not the engine that limits: a decode and an answer take time, too."""
    codes: Counter[str] = field(default_factory=Counter)
    memory_mib: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        memory = self.memory_mib
        answered = ", ".join(f"{count} {code}" for code, count in self.codes.most_common())
        return (
            f"capacity {self.capacity:.0f}/s, offered {self.offered:.0f}/s, goodput {self.goodput:.0f}/s: "
            f"{self.goodput / self.capacity:.3f} of capacity; answered meanwhile: {answered}; "
            f"the worker used {self.processors:.2f} processors; "
            f"memory {memory[0]:.0f} MiB at the start, {memory[-1]:.0f} at the end, {max(memory):.0f} at most"
        )

    def judge(self) -> None:
        """Adds to `wrong` what the numbers say."""
        if self.offered < LEAST_OFFERED * OVERLOAD * self.capacity:
            self.wrong.append("the machine is too busy to offer the load: this run tells nothing")
        if self.goodput < LEAST_GOODPUT * self.capacity:
            self.wrong.append(f"goodput is below {LEAST_GOODPUT} of the capacity")
        half = len(self.memory_mib) // 2
        if max(self.memory_mib[half:]) > MOST_GROWTH * max(self.memory_mib[:half]):
            self.wrong.append("memory grows")


async def measure(
    folder: Path,
    seconds: float,
    timeout_ms: int | None,
    tell: Callable[[str], None],
    *,
    step_sequences: int = STEP_SEQUENCES,
    backlog_seconds: float = BACKLOG_SECONDS,
) -> Overload:
    """On servers of its own; the numbers are not judged yet. Raises what keeps it from them."""
    kafka, redis = KafkaNode(folder / "kafka"), RedisNode(folder / "redis")
    settings: dict[str, object] = {
        "engine.max_num_seqs": step_sequences,
        "engine.scripted_seconds_per_step": STEP_SECONDS,
        # Full within seconds, so that what still grows then is a leak.
        "limits.lane_records": 8 * step_sequences,
        "kafka.max_partition_fetch_bytes": 65_536,
    }
    deployment = Deployment(
        kafka, redis, "overload", partitions=PARTITIONS, folder=folder, settings=settings, stop_seconds=STOP_SECONDS
    )
    found = Overload()
    async with serving(kafka, redis), deployment:
        mix = Mix(b'{"id":"ID","task":"score","query":"q","document":"some words"}')
        backlog = deployment.load(BACKLOG_PER_SECOND, mix)
        async with under_load(backlog):
            enough = backlog_seconds * step_sequences / STEP_SECONDS
            await wait_until(lambda: len(backlog.acknowledged) >= enough, "the backlog", CATCH_UP_SECONDS)
        slot = deployment.open_slot("0")
        await slot.until_running()
        await deployment.until_all_committed(CATCH_UP_SECONDS)
        found.capacity = steady_rate([answer.written_at async for answer in answers(deployment.place)])
        tell(f"capacity {found.capacity:.0f}/s")

        load = deployment.load(OVERLOAD * found.capacity, with_deadline(mix, timeout_ms))
        began, ended = await _overload(load, slot, seconds, found)
        await slot.retire()
        await _count(deployment, began, ended, found)
        found.wrong += slot.wrong
        if any(event["event"] == "held by the breaker" for event in slot.processes[-1].events()):
            found.wrong.append("the breaker has held a partition")
    return found


def with_deadline(mix: Mix, timeout_ms: int | None) -> Mix:
    """The same requests, each with so long from its record's timestamp."""
    if timeout_ms is None:
        return mix
    return Mix(mix.good.replace(b'{"id"', b'{"timeout_ms":%d,"id"' % timeout_ms))


async def _overload(load: Load, slot: Slot, seconds: float, found: Overload) -> tuple[float, float]:
    """Returns when goodput began to count and when it ended, in Unix seconds."""
    pid = slot.processes[-1].pid
    async with under_load(load):
        began, busy_before = time.monotonic(), processor_seconds(pid)
        while time.monotonic() < began + seconds:
            found.memory_mib.append(resident_mib(pid))
            await asyncio.sleep(SAMPLE_SECONDS)
        ended_unix = time.time()
        lasted = time.monotonic() - began
        found.offered = len(load.acknowledged) / lasted
        found.processors = (processor_seconds(pid) - busy_before) / lasted
    return ended_unix - lasted + SETTLING_SECONDS, ended_unix


def resident_mib(pid: int) -> float:
    """Of a process, now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB


def processor_seconds(pid: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


async def _count(deployment: Deployment, began: float, ended: float, found: Overload) -> None:
    """Every answer: in order, in time, right."""
    order = OrderWatch()
    async for answer in answers(deployment.place):
        order.saw(answer)
        if began <= answer.written_at < ended:
            found.codes[answer.code or "ok"] += 1
    found.goodput = found.codes["ok"] / (ended - began)
    found.wrong += order.breaches[:5]
    found.wrong += [f"answered with {code}" for code in found.codes if code not in ("ok", ErrorCode.EXPIRED)]
    letters = sum((await deployment.place.ends(deployment.place.topics.dead_letters)).values())
    if letters:
        found.wrong.append(f"{letters} dead letters, though no request is bad")


def main(
    minutes: Annotated[float, typer.Option(min=0.5, help="Of overload, after the capacity was measured.")] = 10.0,
    timeout_ms: Annotated[int | None, typer.Option(min=1, help="Of every request; default: no deadline.")] = None,
    step_sequences: Annotated[
        int, typer.Option(min=1, help="Of the engine, ten steps a second: fewer for a busy machine.")
    ] = STEP_SEQUENCES,
) -> None:
    """Three times the load that one worker can bear: memory must be flat, and goodput the capacity."""

    async def drill(folder: Path) -> list[str]:
        found = await measure(folder, 60 * minutes, timeout_ms, say, step_sequences=step_sequences)
        say(str(found))
        found.judge()
        return found.wrong

    run_drill("overload", drill)


if __name__ == "__main__":
    typer.run(main)
