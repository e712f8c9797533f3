"""kill -9 of one of four workers of one supervisor under load: what its partitions see, and what the others' do.

`python -m tests.chaos workers`. Exit code 0: every promise was kept; 3: one was not.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import aiohttp
import typer
from prometheus_client.parser import text_string_to_metric_families

from producer_tools.console import say
from tests.chaos.answers import answers
from tests.chaos.deployment import DURABLE, Deployment, serving, under_load
from tests.chaos.drill import CHUNK_RECORDS, DRAIN_SECONDS, MAX_UNCOMMITTED_RECORDS, SETTINGS, STOP_GRACE_SECONDS
from tests.chaos.running import run_drill
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode
from tests.services.supervisor import SupervisorProcess

WORKERS, PARTITIONS, VICTIM = 4, 8, 1
SESSION_SECONDS, HEARTBEAT_SECONDS = 10, 1
HANDOVER_SECONDS = 4.0
"""Of a rebalance among workers that live: until the next heartbeat of each, what is in flight, and a busy machine."""
CATCH_UP_SECONDS = 120.0
OWNED = "scorestream_partition_inflight_records"
"""A series for each partition that a worker owns."""
TIMES: dict[str, object] = SETTINGS | {
    "kafka.session_timeout_seconds": SESSION_SECONDS,
    "kafka.heartbeat_interval_seconds": HEARTBEAT_SECONDS,
}


@dataclass(slots=True)
class Losses:
    """Longest time without an answer after the kill, in seconds; by partition, of the victim's and of the others'."""

    victims: dict[int, float] = field(default_factory=dict)
    others: dict[int, float] = field(default_factory=dict)
    down_seconds: float = 0.0
    """From the kill until the victim's next process was ready."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        victims, others = (
            ", ".join(f"{partition}={seconds:.1f}" for partition, seconds in sorted(pauses.items()))
            for pauses in (self.victims, self.others)
        )
        return (
            f"worker {VICTIM} was ready again after {self.down_seconds:.1f} s; longest pause in seconds of its "
            "partitions: "
            f"{victims}; of the others': {others}"
        )


async def owners(port: int) -> dict[int, int]:
    """Partition -> worker, from the metrics of all."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as got:
        families = text_string_to_metric_families(await got.text())
    return {
        int(sample.labels["partition"]): int(sample.labels["worker"])
        for family in families
        for sample in family.samples
        if sample.name == OWNED
    }


class WorkerKill:
    """One run on servers of its own. `say` is told how it goes."""

    def __init__(self, folder: Path, requests_per_second: float, tell: Callable[[str], None]) -> None:
        self._kafka, self._redis = KafkaNode(folder / "kafka"), RedisNode(folder / "redis", DURABLE)
        self._deployment = Deployment(
            self._kafka,
            self._redis,
            "workers",
            partitions=PARTITIONS,
            folder=folder,
            settings=TIMES,
            stop_seconds=DRAIN_SECONDS + STOP_GRACE_SECONDS,
        )
        self._supervisor = SupervisorProcess(folder / "supervisor", TIMES | self._deployment.place.settings, WORKERS)
        self._load = self._deployment.load(requests_per_second)
        self._tell = tell

    async def run(self, seconds: float) -> Losses:
        """Load for so long before the kill, and after the victim is back. Raises what keeps it from its numbers."""
        async with serving(self._kafka, self._redis), self._deployment as deployment:
            try:
                await self._supervisor.start()
                async with under_load(self._load):
                    owned_by, killed_at, back_at = await self._strike(seconds)
                await deployment.until_all_committed(CATCH_UP_SECONDS)
                code = await self._supervisor.stop()
            finally:
                self._supervisor.abandon()
            # The victim's uncommitted ones; and a chunk on its way when partitions change hands.
            judgement = await deployment.judged(self._load, MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS)
            self._tell(str(judgement))
            losses = await self._losses(owned_by, killed_at, back_at)
            losses.wrong += judgement.mismatches + ([] if code == 0 else [f"the supervisor ended with {code}"])
            return losses

    async def _strike(self, seconds: float) -> tuple[dict[int, int], float, float]:
        """Who owned what, and the unix seconds of the kill and of the victim's return."""
        await asyncio.sleep(seconds)
        owned_by, pids = await owners(self._supervisor.port), (await self._supervisor.ask()).pids
        self._tell(f"kill -9 of worker {VICTIM}; partition -> worker: {owned_by}")
        os.kill(pids[VICTIM], signal.SIGKILL)
        killed_at = time.time()
        await self._supervisor.until(lambda standing: not standing.ok, "the loss is noticed")
        await self._supervisor.until(lambda standing: standing.ok, "all are ready again", 120)
        back_at = time.time()
        await asyncio.sleep(seconds)
        after = (await self._supervisor.ask()).pids
        assert {worker for worker in pids if pids[worker] != after[worker]} == {VICTIM}
        return owned_by, killed_at, back_at

    async def _losses(self, owned_by: dict[int, int], killed_at: float, back_at: float) -> Losses:
        losses = Losses(down_seconds=back_at - killed_at)
        written: dict[int, list[float]] = {partition: [killed_at] for partition in owned_by}
        async for answer in answers(self._deployment.place):
            if answer.written_at > killed_at:
                written[answer.partition].append(answer.written_at)
        for partition, moments in written.items():
            of_victim = owned_by[partition] == VICTIM
            (losses.victims if of_victim else losses.others)[partition] = longest_pause(moments)
        for partition, pause in losses.others.items():
            if pause > HANDOVER_SECONDS:
                losses.wrong.append(f"partition {partition}, not the victim's, stood still for {pause:.1f} s")
        for partition, pause in losses.victims.items():
            if pause > SESSION_SECONDS + 2 * HANDOVER_SECONDS:
                losses.wrong.append(f"partition {partition}, the victim's, stood still for {pause:.1f} s")
        if len(losses.victims) != PARTITIONS // WORKERS:
            losses.wrong.append(f"the victim had {len(losses.victims)} partitions")
        return losses


def longest_pause(moments: Iterable[float]) -> float:
    """Between two answers, in seconds."""
    return max(after - before for before, after in pairwise(sorted(moments)))


def main(
    seconds: Annotated[float, typer.Option(min=3, help="Of load before the kill, and after the return.")] = 15.0,
    requests_per_second: Annotated[float, typer.Option(min=1)] = 200.0,
) -> None:
    """kill -9 of one of four workers under one supervisor; what its partitions see, and what the others' do."""

    async def drill(folder: Path) -> list[str]:
        losses = await WorkerKill(folder, requests_per_second, say).run(seconds)
        say(str(losses))
        return losses.wrong

    run_drill("workers", drill)


if __name__ == "__main__":
    typer.run(main)
