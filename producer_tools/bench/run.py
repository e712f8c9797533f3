"""Run a suite: deployment by deployment, each measurement into the report as soon as it is there."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError
from redis.exceptions import RedisError

from producer_tools import options
from producer_tools.bench.engines import Reports, Worker, set_arguments
from producer_tools.bench.lone import measure_one_at_a_time
from producer_tools.bench.measurement import Kind, Measurement
from producer_tools.bench.mixes import Mix, Tokenisation
from producer_tools.bench.parts import Step, SuitePart, Wanted, transformers_name
from producer_tools.bench.pipeline import Deployed, measure_backlog, measure_load
from producer_tools.bench.report import Report
from producer_tools.bench.suite import CUSTOM, Deployment, Suite
from producer_tools.connections.kafka import Brokers
from producer_tools.connections.redis import RedisServer
from producer_tools.console import ToolFailure
from producer_tools.generate import unique_prefix
from producer_tools.kafka import create_topics
from producer_tools.load import ClosedLoop, OpenLoop, Pace, Target, drive, publish_all
from producer_tools.local.group import GROUP_ID, until_joined
from producer_tools.local.mps import mps_daemon
from producer_tools.local.processes import Child
from producer_tools.local.services import IDLE_SECONDS, Services, embedded_services
from producer_tools.local.worker import engine_environment, running_worker, service_environment, until_ready

PARTITIONS_PER_WORKER = 8
LONE_WARMUP_REQUESTS = 10
WARMUP_SEED, LONE_SEED = 1, 2
"""Added to the suite's: a prefix cache must not know yet what is measured."""


def pace_of(suite: Suite) -> Pace:
    """Open loop where a rate is asked for, else closed."""
    return ClosedLoop(suite.concurrency) if suite.rate is None else OpenLoop(suite.rate)


async def run_suite(
    suite: Suite,
    mixes: Mapping[str, Mix],
    parts: Sequence[SuitePart],
    progress: Progress,
) -> None:
    """Measure what the report does not have yet of these parts of the suite. `mixes`: by name.

    Raises ToolFailure at the end, when something could not be measured.
    """
    with tempfile.TemporaryDirectory(prefix="scorestream-bench-") as folder:
        await SuiteRun(suite, mixes, Path(folder), progress).run(parts)


@dataclass(frozen=True, slots=True)
class Progress:
    """The report as it grows. `note` is told each step; `grown` is told the report whenever something is new in it."""

    report: Report
    note: Callable[[str], None]
    grown: Callable[[Report], None]

    def add(self, measured: Measurement) -> None:
        """One more measurement."""
        self.note(f"  {measured.mix}, {measured.engines}: {measured.requests_per_second:.1f} requests/s")
        self.report.measurements.append(measured)
        self.grown(self.report)

    def skip(self, why: str) -> None:
        """Something is not measured."""
        self.note(why)
        self.report.skipped.append(why)
        self.grown(self.report)


class SuiteRun:
    """One run of a suite on this machine: its own broker, cache, workers and engines."""

    def __init__(
        self,
        suite: Suite,
        mixes: Mapping[str, Mix],
        folder: Path,
        progress: Progress,
    ) -> None:
        self._suite = suite
        self._folder = folder
        self._progress = progress
        self._mixes = mixes
        names_model = any("engine.model" in one for one in (suite.settings, *(it.settings for it in suite.deployments)))
        self._environment = dict(os.environ) if names_model else engine_environment()
        self._ends = time.monotonic() + suite.minutes * 60 if suite.minutes else float("inf")
        self._tokenisation = Tokenisation()

    async def run(self, parts: Sequence[SuitePart]) -> None:
        """Measure. A failure of one part is in `skipped`, and then raised as ToolFailure at the end."""
        steps = {
            Step.ENGINES: self._engines,
            Step.LONE_ENGINE: self._lone_engine,
            Step.PIPELINE: self._pipeline,
            Step.BACKLOG: self._backlog,
            Step.TRANSFORMERS: self._transformers,
        }
        todo = [(part, missing) for part in parts if (missing := part.missing(self._progress.report.measurements))]
        if {one.mix for _, missing in todo for one in missing} - {CUSTOM}:
            # Lengths in tokens; a model that scores no pairs has none of these mixes.
            self._tokenisation = await self._worker({}, self._environment).tokenisation()
        failures = 0
        for part, missing in todo:
            if time.monotonic() > self._ends:
                self._progress.skip(f"{part.name}: {self._suite.minutes:g} minutes were over")
                continue
            self._progress.note(part.name)
            began = time.monotonic()
            try:
                await steps[part.step](part.deployment, missing)
            except (ToolFailure, KafkaError, RedisError, OSError) as failure:
                # The other measurements stand, and are worth having.
                failures += 1
                self._progress.skip(f"{part.name}: {failure}")
            self._progress.note(f"  {time.monotonic() - began:.0f} s")
        if failures:
            raise ToolFailure(f"{failures} parts could not be measured; the report says why")

    async def _engines(self, deployment: Deployment, missing: Sequence[Wanted]) -> None:
        files = self._files(missing)
        counts = sorted({one.engines for one in missing})
        async with self._environment_of(deployment) as environment:
            worker = self._worker(deployment.settings, environment)
            await self._alone(Kind.ENGINE, deployment.name, files, worker.ceiling(list(files), counts))

    async def _lone_engine(self, deployment: Deployment, missing: Sequence[Wanted]) -> None:
        files = {self._file(one.mix, self._suite.one_at_a_time_requests, LONE_SEED): one.mix for one in missing}
        worker = self._worker(deployment.settings, self._environment)
        await self._alone(Kind.ENGINE_LONE, deployment.name, files, worker.one_at_a_time(list(files)))

    async def _transformers(self, _deployment: Deployment, missing: Sequence[Wanted]) -> None:
        baseline = self._suite.transformers
        assert baseline is not None
        files = self._files(missing, most=baseline.requests)
        # What the engine chose, where the settings leave it to the model.
        dtype = next((one.dtype for one in self._progress.report.of_kind(Kind.ENGINE) if one.dtype), None)
        worker = self._worker({"engine.dtype": dtype} if dtype else {}, self._environment)
        told = worker.baseline(list(files), baseline.batch_size)
        await self._alone(Kind.TRANSFORMERS, transformers_name(baseline.batch_size), files, told)

    async def _alone(self, kind: Kind, name: str, files: Mapping[Path, str], told: Reports) -> None:
        """What one of the worker's commands says of files of these mixes."""
        mixes = {file.name: mix for file, mix in files.items()}
        async with aclosing(told):
            async for one in told:
                self._progress.add(
                    Measurement(
                        kind=kind,
                        deployment=name,
                        mix=mixes[one["file"]],
                        engines=one["engines"],
                        requests=one["requests"],
                        seconds=one["seconds"],
                        requests_per_second=one["requests_per_second"],
                        tokens_per_request=round(one["tokens"] / one["requests"], 1),
                        latency_ms=one["latency_ms"],
                        dtype=one["dtype"],
                    )
                )

    async def _pipeline(self, deployment: Deployment, missing: Sequence[Wanted]) -> None:
        suite = self._suite
        async with self._services(deployment) as (services, target), self._workers(deployment, services, target) as own:
            for mix in [one.mix for one in missing if one.kind is Kind.PIPELINE]:
                if suite.warmup:
                    warmup = self._requests(mix, suite.warmup_of(mix), WARMUP_SEED)
                    await own.worker.while_running(drive(warmup, target, pace_of(suite)))
                count = suite.requests_of(mix)
                work = measure_load(own.deployed, mix, self._requests(mix, count), count, pace_of(suite))
                self._progress.add(await own.worker.while_running(work))
            for mix in [one.mix for one in missing if one.kind is Kind.PIPELINE_LONE]:
                requests = self._requests(mix, LONE_WARMUP_REQUESTS + suite.one_at_a_time_requests, LONE_SEED)
                server = RedisServer(services.redis_url)
                lone = measure_one_at_a_time(
                    own.deployed, mix, requests, LONE_WARMUP_REQUESTS, server=server, prefix=options.REDIS_PREFIX
                )
                self._progress.add(await own.worker.while_running(lone))

    async def _backlog(self, deployment: Deployment, missing: Sequence[Wanted]) -> None:
        suite = self._suite
        lag = suite.backlog - suite.warmup
        for mix in [one.mix for one in missing]:
            count = min(suite.requests_of(mix), lag)
            async with self._services(deployment) as (services, target):
                await publish_all(self._requests(mix, suite.backlog), target)
                self._progress.note(f"published {suite.backlog} requests")
                async with self._workers(deployment, services, target) as own:
                    work = measure_backlog(own.deployed, mix, suite.warmup, count, lag)
                    self._progress.add(await own.worker.while_running(work))

    @asynccontextmanager
    async def _services(self, deployment: Deployment) -> AsyncIterator[tuple[Services, Target]]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            async with embedded_services(Path(folder)) as services:
                target = Target(
                    Brokers(services.bootstrap_servers), options.REQUEST_TOPIC, options.RESULT_TOPIC, IDLE_SECONDS
                )
                topics = [target.request_topic, target.result_topic, options.DEAD_LETTER_TOPIC]
                partitions = PARTITIONS_PER_WORKER * deployment.workers
                await create_topics(services.bootstrap_servers, topics, partitions=partitions)
                yield services, target

    @asynccontextmanager
    async def _workers(self, deployment: Deployment, services: Services, target: Target) -> AsyncIterator[_Own]:
        arguments = set_arguments(self._suite.settings | deployment.settings | {"kafka.group_id": GROUP_ID})
        if deployment.workers > 1:
            arguments += ["--workers", str(deployment.workers)]
            if deployment.mps:
                arguments += ["--mps", "on"]
        log = self._folder / "worker.log"
        environment = self._environment | service_environment(services)
        async with running_worker(environment, log, arguments) as worker:
            await worker.while_running(until_ready(log, self._progress.note, deployment.workers))
            await worker.while_running(until_joined(services.bootstrap_servers, GROUP_ID, deployment.workers))
            yield _Own(worker, Deployed(deployment.name, target, deployment.workers, worker.pid))

    @asynccontextmanager
    async def _environment_of(self, deployment: Deployment) -> AsyncIterator[dict[str, str]]:
        if not deployment.mps:
            yield self._environment
            return
        async with mps_daemon(self._folder) as found_by:
            yield self._environment | found_by

    def _worker(self, settings: dict[str, Any], environment: Mapping[str, str]) -> Worker:
        return Worker(self._folder, environment, self._suite.settings | settings)

    def _files(self, missing: Sequence[Wanted], *, most: int | None = None) -> dict[Path, str]:
        """The requests of each mix: the same, id apart, as the pipeline gets."""
        mixes = dict.fromkeys(one.mix for one in missing)
        counts = {mix: self._suite.requests_of(mix) for mix in mixes}
        return {self._file(mix, min(count, most or count)): mix for mix, count in counts.items()}

    def _file(self, mix: str, count: int, seed: int = 0) -> Path:
        file = self._folder / f"{mix}-{count}-{seed}.jsonl"
        if not file.exists():
            with file.open("wb") as lines:
                lines.writelines(value + b"\n" for _, value in self._requests(mix, count, seed))
        return file

    def _requests(self, mix: str, count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
        """`seed` is added to the suite's."""
        return self._mixes[mix].requests(
            count, seed=self._suite.seed + seed, id_prefix=unique_prefix(mix), tokenisation=self._tokenisation
        )


class _Own(NamedTuple):
    worker: Child
    deployed: Deployed
