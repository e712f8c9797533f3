"""kill -9 of one of four workers of one supervisor under load: what its partitions see, and what the others' do.

`python -m tests.chaos workers`. Exit code 0: every promise was kept; 3: one was not.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import aiohttp
import typer
from prometheus_client.parser import text_string_to_metric_families

from consumer.sections import Mps
from producer_tools.console import say
from tests.chaos.answers import answers
from tests.chaos.deployment import DURABLE, Deployment, serving, under_load
from tests.chaos.drill import CHUNK_RECORDS, DRAIN_SECONDS, MAX_UNCOMMITTED_RECORDS, SETTINGS, STOP_GRACE_SECONDS
from tests.chaos.fates import WENT_ON, Losses, fates, longest_pause
from tests.chaos.forms import Engine, reranker_settings
from tests.chaos.load import PAIRS, SCORES, Mix
from tests.chaos.running import run_drill
from tests.services.embedded import EmbeddedNode
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode
from tests.services.supervisor import Standing, SupervisorProcess

WORKERS, PARTITIONS, VICTIM = 4, 8, 1
SESSION_SECONDS, HEARTBEAT_SECONDS = 10, 1
HANDOVER_SECONDS = 4.0
"""Of a rebalance among workers that live: until the next heartbeat of each, what is in flight, and a busy machine."""
CATCH_UP_SECONDS = 120.0
PATIENT_SESSION_SECONDS = 1800
"""noida-db (0.2.3) ends no session, so that a rebalance waits for the dead for ever: nobody is to join."""
WARM = "warm"
"""The phase of a worker that waits to be let join."""
OWNED = "scorestream_partition_inflight_records"
"""A series for each partition that a worker owns."""
TIMES: dict[str, object] = SETTINGS | {
    "kafka.session_timeout_seconds": SESSION_SECONDS,
    "kafka.heartbeat_interval_seconds": HEARTBEAT_SECONDS,
}


@dataclass(frozen=True, slots=True)
class Struck:
    """What is struck. `ready_seconds`: workers that were started are ready by then."""

    mix: Mix = SCORES
    settings: Mapping[str, object] = field(default_factory=dict)
    mps: Mps = Mps.OFF
    broker: type[KafkaNode] | type[EmbeddedNode] = KafkaNode
    ready_seconds: float = 120.0
    engine_stop_seconds: float = 0.0


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


@dataclass(frozen=True, slots=True)
class Strike:
    """What was seen of it, in unix seconds. `owned_by`: partition -> worker, before. `fates`: of the others."""

    owned_by: Mapping[int, int]
    killed_at: float
    back_at: float
    ended_at: float
    """Of the load."""
    fates: dict[int, str]


class WorkerKill:
    """One run on servers of its own. `tell` is told how it goes."""

    def __init__(
        self, folder: Path, requests_per_second: float, tell: Callable[[str], None], struck: Struck | None = None
    ) -> None:
        self._struck = struck = struck or Struck()
        self._folder = folder
        self._kafka, self._redis = struck.broker(folder / "kafka"), RedisNode(folder / "redis", DURABLE)
        self._deployment = Deployment(
            self._kafka,
            self._redis,
            "workers",
            partitions=PARTITIONS,
            folder=folder,
            settings=TIMES,
            stop_seconds=DRAIN_SECONDS + STOP_GRACE_SECONDS + struck.engine_stop_seconds,
        )
        own: dict[str, object] = {"workers.mps": struck.mps.value}
        self._rebalances = struck.broker is KafkaNode
        if not self._rebalances:
            own["kafka.session_timeout_seconds"] = PATIENT_SESSION_SECONDS
        self._settings = TIMES | self._deployment.place.settings | own | dict(struck.settings)
        self._load = self._deployment.load(requests_per_second, struck.mix)
        self._tell = tell

    async def run(self, seconds: float) -> Losses:
        """Load for so long before the kill, and after the victim is back. Raises what keeps it from its numbers."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(serving(self._kafka, self._redis))
            deployment = await stack.enter_async_context(self._deployment)
            supervisor = SupervisorProcess(self._folder / "supervisor", self._settings, WORKERS)
            stack.callback(supervisor.abandon)
            await supervisor.start(self._struck.ready_seconds)
            async with under_load(self._load):
                strike = await self._strike(supervisor, seconds)
            if not self._rebalances:
                return await self._losses(strike)
            await deployment.until_all_committed(CATCH_UP_SECONDS)
            code = await supervisor.stop()
            # The victim's uncommitted ones; and a chunk on its way when partitions change hands.
            judgement = await deployment.judged(self._load, MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS)
            self._tell(str(judgement))
            losses = await self._losses(strike)
            losses.wrong += judgement.mismatches + ([] if code == 0 else [f"the supervisor ended with {code}"])
            return losses

    async def _strike(self, supervisor: SupervisorProcess, seconds: float) -> Strike:
        await asyncio.sleep(seconds)
        owned_by, pids = await owners(supervisor.port), (await supervisor.ask()).pids
        self._tell(f"kill -9 of worker {VICTIM}; partition -> worker: {owned_by}")
        os.kill(pids[VICTIM], signal.SIGKILL)
        killed_at = time.time()
        await supervisor.until(lambda standing: not standing.ok, "the loss is noticed")
        await supervisor.until(self._is_back, "it is back", self._struck.ready_seconds)
        back_at = time.time()
        await asyncio.sleep(seconds)
        lived = fates(supervisor, set(range(WORKERS)) - {VICTIM})
        return Strike(owned_by, killed_at, back_at, time.time(), lived)

    def _is_back(self, standing: Standing) -> bool:
        """Whether all are ready; or, where nobody can join, whether the victim's next process could."""
        return standing.ok if self._rebalances else standing.phase(VICTIM) == WARM

    async def _losses(self, strike: Strike) -> Losses:
        back = "all were ready" if self._rebalances else "its next process was warm"
        losses = Losses(VICTIM, back, strike.back_at - strike.killed_at, fates=strike.fates)
        written = {partition: [strike.killed_at, strike.ended_at] for partition in strike.owned_by}
        async for answer in answers(self._deployment.place):
            if answer.written_at > strike.killed_at:
                written[answer.partition].append(answer.written_at)
        for partition, moments in written.items():
            of_victim = strike.owned_by[partition] == VICTIM
            (losses.victims if of_victim else losses.others)[partition] = longest_pause(moments)
        if len(losses.victims) != PARTITIONS // WORKERS:
            losses.wrong.append(f"the victim had {len(losses.victims)} partitions")
        losses.wrong += others_stopped(losses)
        if self._rebalances:
            losses.wrong += moved_too_late(losses)
        return losses


def others_stopped(losses: Losses) -> list[str]:
    """What the others have to do with it: nothing but a handover."""
    wrong = [f"worker {worker}, not the victim: {fate}" for worker, fate in losses.fates.items() if fate != WENT_ON]
    return wrong + [
        f"partition {partition}, not the victim's, stood still for {pause:.1f} s"
        for partition, pause in losses.others.items()
        if pause > HANDOVER_SECONDS
    ]


def moved_too_late(losses: Losses) -> list[str]:
    """The victim's partitions go to the others when its session ends, and come back with its successor."""
    return [
        f"partition {partition}, the victim's, stood still for {pause:.1f} s"
        for partition, pause in losses.victims.items()
        if pause > SESSION_SECONDS + 2 * HANDOVER_SECONDS
    ]


def main(
    seconds: Annotated[float, typer.Option(min=3, help="Of load before the kill, and after the return.")] = 15.0,
    requests_per_second: Annotated[float, typer.Option(min=1)] = 200.0,
    *,
    engine: Annotated[Engine, typer.Option(help="vllm: the real one, with --model.")] = Engine.SCRIPTED,
    model: Annotated[str, typer.Option(help="A reranker's folder or name. Default: a small one, on CPU.")] = "",
    setting: Annotated[list[str] | None, typer.Option("--set", help="A setting of the workers, as for `run`.")] = None,
    mps: Annotated[Mps, typer.Option(help="Whether they share the GPU through CUDA MPS.")] = Mps.OFF,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="noida-db, not Apache Kafka: only what the others do is judged.")
    ] = False,
) -> None:
    """kill -9 of one of four workers under one supervisor; what its partitions see, and what the others' do."""
    broker = EmbeddedNode if embedded else KafkaNode
    if wrong := [one for one in setting or () if "=" not in one]:
        raise typer.BadParameter(f"{wrong[0]}: write PATH=VALUE, as in engine.dtype=bfloat16", param_hint="--set")
    chosen = dict(one.split("=", 1) for one in setting or ())
    struck = Struck(settings=chosen, mps=mps, broker=broker)
    if engine is Engine.VLLM:
        settings = reranker_settings(model) | chosen
        struck = Struck(PAIRS, settings, mps, broker, ready_seconds=900.0, engine_stop_seconds=60.0)

    async def drill(folder: Path) -> list[str]:
        losses = await WorkerKill(folder, requests_per_second, say, struck).run(seconds)
        say(str(losses))
        return losses.wrong

    run_drill("workers", drill)
