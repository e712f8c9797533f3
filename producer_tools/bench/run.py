"""Run a suite: deployment by deployment, each measurement into the report as soon as it is there."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from producer_tools import options
from producer_tools.bench.engines import Worker, set_arguments
from producer_tools.bench.files import write_files
from producer_tools.bench.lone import measure_one_at_a_time
from producer_tools.bench.mixes import Mix, Tokenisation
from producer_tools.bench.pipeline import Deployed, measure_backlog, measure_load
from producer_tools.bench.report import Kind, Measurement, Report
from producer_tools.bench.suite import CUSTOM, Deployment, Suite
from producer_tools.connections.kafka import Brokers
from producer_tools.console import ToolFailure
from producer_tools.generate import unique_prefix
from producer_tools.kafka import create_topics
from producer_tools.load import ClosedLoop, OpenLoop, Pace, Target, drive, publish_all
from producer_tools.local.mps import mps_daemon
from producer_tools.local.processes import Child
from producer_tools.local.services import IDLE_SECONDS, Services, embedded_services
from producer_tools.local.worker import engine_environment, running_worker, service_environment, until_ready

PARTITIONS_PER_WORKER = 8
LONE_WARMUP_REQUESTS = 10


def empty_report(suite: Suite) -> Report:
    """A report without measurements."""
    return Report(
        scorestream=version("scorestream"),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        suite=suite.model_dump(mode="json"),
    )


def machine() -> dict[str, Any]:
    """What this machine is, as far as rates depend on it."""
    gpus = []
    if shutil.which("nvidia-smi"):
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607
        gpus = [line.partition(" (")[0] for line in listed.stdout.splitlines() if line.startswith("GPU")]
    return {"cpus": len(os.sched_getaffinity(0)), "gpus": gpus, "python": platform.python_version()}


def pace_of(suite: Suite) -> Pace:
    """Open loop where a rate is asked for, else closed."""
    return ClosedLoop(suite.concurrency) if suite.rate is None else OpenLoop(suite.rate)


async def run_suite(
    suite: Suite,
    mixes: Mapping[str, Mix],
    out: Path | None,
    note: Callable[[str], None],
    show: Callable[[Report], None],
) -> None:
    """Measure everything; `out` has the report as it grows, `show` is given what there is in the end.

    Raises ToolFailure after that, when something could not be measured.
    """

    def changed(report: Report) -> None:
        if out is not None:
            write_files(report, out)

    with tempfile.TemporaryDirectory(prefix="scorestream-bench-") as folder:
        run = SuiteRun(suite, mixes, Path(folder), note, changed)
        try:
            await run.run()
        finally:
            if run.report.measurements:
                show(run.report)


class SuiteRun:
    """One run of a suite on this machine: its own broker, cache, workers and engines.

    `mixes`: by name. `changed` is called whenever the report has grown.
    """

    def __init__(
        self,
        suite: Suite,
        mixes: Mapping[str, Mix],
        folder: Path,
        note: Callable[[str], None],
        changed: Callable[[Report], None],
    ) -> None:
        self._suite = suite
        self._folder = folder
        self._note = note
        self._changed = changed
        self._mixes = mixes
        names_model = any("engine.model" in one for one in (suite.settings, *(it.settings for it in suite.deployments)))
        self._environment = dict(os.environ) if names_model else engine_environment()
        self._ends = time.monotonic() + suite.minutes * 60 if suite.minutes else float("inf")
        self._tokenisation = Tokenisation()
        self.report = empty_report(suite)

    async def run(self) -> None:
        """Measure everything. A failure of one part is in `skipped`, and then raised as ToolFailure at the end."""
        if {*self._suite.mixes, *(mix for one in self._suite.deployments for mix in one.mixes or ())} != {CUSTOM}:
            # Lengths in tokens; a model that scores no pairs has none of these mixes.
            self._tokenisation = await self._worker({}, self._environment).tokenisation()
        failures = 0
        for name, step in self._steps():
            if time.monotonic() > self._ends:
                self._skip(f"{name}: {self._suite.minutes:g} minutes were over")
                continue
            self._note(name)
            try:
                await step()
            except ToolFailure as failure:
                # The other measurements stand, and are worth having.
                failures += 1
                self._skip(f"{name}: {failure}")
        if failures:
            raise ToolFailure(f"{failures} measurements failed; the report says why")

    def _steps(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        for one in self._suite.deployments:
            if "engine" in one.measure:
                for engines in one.engine_counts:
                    yield f"{one.name}: engines alone, {engines}", partial(self._engines, one, engines)
            if {"engine", "one_at_a_time"} <= set(one.measure):
                yield f"{one.name}: one engine, one request at a time", partial(self._lone_engine, one)
            if self._suite.backlog and "pipeline" in one.measure:
                for mix in one.mixes or self._suite.mixes:
                    yield f"{one.name}: pipeline with a backlog, {mix}", partial(self._backlog, one, mix)
            elif {"pipeline", "one_at_a_time"} & set(one.measure):
                yield f"{one.name}: pipeline", partial(self._pipeline, one)
            if one is self._suite.deployments[0] and self._suite.transformers is not None:
                yield "transformers", partial(self._transformers, one, self._suite.transformers)

    async def _engines(self, deployment: Deployment, engines: int) -> None:
        async with self._environment_of(deployment) as environment:
            files = self._files(deployment)
            reports = await self._worker(deployment.settings, environment).ceiling(list(files.values()), engines)
        self._add(_alone(Kind.ENGINE, deployment, mix, told) for mix, told in zip(files, reports, strict=True))

    async def _lone_engine(self, deployment: Deployment) -> None:
        mix = (deployment.mixes or self._suite.mixes)[0]
        file = self._file(mix, self._suite.one_at_a_time_requests)
        [told] = await self._worker(deployment.settings, self._environment).one_at_a_time([file])
        self._add([_alone(Kind.ENGINE_LONE, deployment, mix, told)])

    async def _transformers(self, deployment: Deployment, batch_size: int) -> None:
        files = self._files(deployment)
        # What the engine chose, where the settings leave it to the model.
        dtype = next((one.dtype for one in self.report.of_kind(Kind.ENGINE) if one.dtype), None)
        settings = {"engine.dtype": dtype} if dtype else {}
        reports = await self._worker(settings, self._environment).baseline(list(files.values()), batch_size)
        told = zip(files, reports, strict=True)
        name = f"transformers, batch {batch_size}"
        self._add(
            _alone(Kind.TRANSFORMERS, deployment, mix, one).model_copy(update={"deployment": name}) for mix, one in told
        )

    async def _pipeline(self, deployment: Deployment) -> None:
        suite = self._suite
        async with self._services(deployment) as (services, target), self._workers(deployment, services, target) as own:
            mixes = deployment.mixes or suite.mixes
            for mix in mixes if "pipeline" in deployment.measure else ():
                if suite.warmup:
                    await own.worker.while_running(drive(self._requests(mix, suite.warmup), target, pace_of(suite)))
                count = suite.requests_of(mix)
                work = measure_load(own.deployed, mix, self._requests(mix, count), count, pace_of(suite))
                self._add([await own.worker.while_running(work)])
            if "one_at_a_time" in deployment.measure:
                requests = self._requests(mixes[0], LONE_WARMUP_REQUESTS + suite.one_at_a_time_requests)
                where = {"redis_url": services.redis_url, "prefix": options.REDIS_PREFIX}
                lone = measure_one_at_a_time(own.deployed, mixes[0], requests, LONE_WARMUP_REQUESTS, **where)
                self._add([await own.worker.while_running(lone)])

    async def _backlog(self, deployment: Deployment, mix: str) -> None:
        suite = self._suite
        count = min(suite.requests_of(mix), suite.backlog - suite.warmup)
        async with self._services(deployment) as (services, target):
            await publish_all(self._requests(mix, suite.backlog), target)
            self._note(f"published {suite.backlog} requests")
            async with self._workers(deployment, services, target) as own:
                lag = suite.backlog - suite.warmup
                work = measure_backlog(own.deployed, mix, suite.warmup, count, lag)
                self._add([await own.worker.while_running(work)])

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
        arguments = set_arguments(self._suite.settings | deployment.settings)
        if deployment.workers > 1:
            arguments += ["--workers", str(deployment.workers)]
        if deployment.mps:
            arguments += ["--mps", "on"]
        log = self._folder / "worker.log"
        environment = self._environment | service_environment(services)
        async with running_worker(environment, log, arguments) as worker:
            await worker.while_running(until_ready(log, self._note, deployment.workers))
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

    def _files(self, deployment: Deployment) -> dict[str, Path]:
        """The requests of each mix: the same, id apart, as the pipeline gets."""
        mixes = deployment.mixes or self._suite.mixes
        return {mix: self._file(mix, self._suite.requests_of(mix)) for mix in mixes}

    def _file(self, mix: str, count: int) -> Path:
        file = self._folder / f"{mix}-{count}.jsonl"
        if not file.exists():
            with file.open("wb") as lines:
                lines.writelines(value + b"\n" for _, value in self._requests(mix, count))
        return file

    def _requests(self, mix: str, count: int) -> Iterator[tuple[str, bytes]]:
        prefix = unique_prefix(mix)
        return self._mixes[mix].requests(
            count, seed=self._suite.seed, id_prefix=prefix, tokenisation=self._tokenisation
        )

    def _add(self, measured: Iterable[Measurement]) -> None:
        for one in measured:
            self._note(f"  {one.mix}: {one.requests_per_second:.1f} requests/s")
            self.report.measurements.append(one)
        self._changed(self.report)

    def _skip(self, why: str) -> None:
        self._note(why)
        self.report.skipped.append(why)
        self._changed(self.report)


class _Own(NamedTuple):
    worker: Child
    deployed: Deployed


def _alone(kind: Kind, deployment: Deployment, mix: str, told: Mapping[str, Any]) -> Measurement:
    """From what one of the worker's commands says of one file."""
    return Measurement(
        kind=kind,
        deployment=deployment.name,
        mix=mix,
        engines=told["engines"],
        requests=told["requests"],
        seconds=told["seconds"],
        requests_per_second=told["requests_per_second"],
        tokens_per_request=round(told["tokens"] / told["requests"], 1),
        latency_ms=told["latency_ms"],
        dtype=told["dtype"],
    )
