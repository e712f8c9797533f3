"""How fast the pipeline is, beside the engine alone on the same requests and machine."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from producer_tools import options
from producer_tools.console import ToolFailure
from producer_tools.generate import GeneratedTask, generate_requests, unique_prefix
from producer_tools.kafka import create_topics
from producer_tools.load import LoadResult, Pace, Target, drive
from producer_tools.local.cpu import CpuSeconds, cpu_seconds
from producer_tools.local.processes import Child
from producer_tools.local.services import IDLE_SECONDS, embedded_services
from producer_tools.local.worker import (
    engine_environment,
    running_worker,
    scorestream_command,
    service_environment,
    until_ready,
)

PARTITIONS = 8
PERCENTILES = (50.0, 90.0, 99.0, 100.0)


@dataclass(frozen=True, slots=True)
class Work:
    """What is sent: `warmup_requests` first, which are not measured, then `measured_requests`."""

    task: GeneratedTask
    measured_requests: int
    warmup_requests: int
    items: int
    words: int
    seed: int

    def requests(self, name: str, count: int) -> Iterable[tuple[str, bytes]]:
        """(id, request) of `count` requests with ids that no other run has."""
        return generate_requests(
            self.task, count, items=self.items, words=self.words, seed=self.seed, id_prefix=unique_prefix(name)
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The measurements of one run. None: not measured."""

    task: str
    requests: int
    items_per_request: int
    seconds: float
    requests_per_second: float
    latency_ms: dict[str, float]
    statuses: dict[str, int]
    main_process_cpu_us_per_request: float | None
    child_processes_cpu_us_per_request: float | None
    engine_only_requests_per_second: float | None
    ratio: float | None

    def as_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))


async def bench_own(work: Work, pace: Callable[[], Pace], *, engine_alone: bool, note: Callable[[str], None]) -> Report:
    """Start broker, cache and worker, measure and stop them; then measure the engine alone, if `engine_alone`.

    Raises ToolFailure.
    """
    with tempfile.TemporaryDirectory(prefix="scorestream-bench-") as name:
        folder = Path(name)
        environment = engine_environment()
        async with _own_worker(folder, environment, note) as (worker, target):
            result, cpu = await worker.while_running(_measure(work, pace, target, worker.pid, note))
        note(f"pipeline: {result.requests_per_second:.1f} requests/s")
        engine_only = None
        if engine_alone:
            note("measuring the engine alone on the same requests")
            engine_only = await _engine_only(work, folder, environment)
    return _report(work, result, cpu, engine_only)


async def bench_existing(
    work: Work, pace: Callable[[], Pace], target: Target, *, pid: int | None, note: Callable[[str], None]
) -> Report:
    """Measure workers that run already; their processor time if `pid` is a worker's on this machine."""
    result, cpu = await _measure(work, pace, target, pid, note)
    return _report(work, result, cpu, None)


def as_table(report: Report) -> Table:
    """For people, at most 80 columns."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_row("pipeline", f"{report.requests_per_second:.1f}", f"requests/s of {report.requests} ({report.task})")
    if report.engine_only_requests_per_second is not None:
        table.add_row("engine only", f"{report.engine_only_requests_per_second:.1f}", "requests/s, the same tokens")
        table.add_row("ratio", f"{report.ratio:.3f}", "pipeline / engine only")
    for name, milliseconds in report.latency_ms.items():
        table.add_row(f"latency {name}", f"{milliseconds:.1f}", "ms from the intended moment of sending")
    for meaning, value in (
        ("main process", report.main_process_cpu_us_per_request),
        ("child processes", report.child_processes_cpu_us_per_request),
    ):
        if value is not None:
            table.add_row("CPU", f"{value:.0f}", f"us per request, worker's {meaning}")
    for status, count in sorted(report.statuses.items()):
        table.add_row("results", str(count), status)
    return table


@asynccontextmanager
async def _own_worker(
    folder: Path, environment: dict[str, str], note: Callable[[str], None]
) -> AsyncIterator[tuple[Child, Target]]:
    async with embedded_services(folder) as services:
        target = Target(services.bootstrap_servers, options.REQUEST_TOPIC, options.RESULT_TOPIC, IDLE_SECONDS)
        topics = [target.request_topic, target.result_topic, options.DEAD_LETTER_TOPIC]
        await create_topics(services.bootstrap_servers, topics, partitions=PARTITIONS)
        note("starting a worker")
        log = folder / "worker.log"
        async with running_worker(environment | service_environment(services), log) as worker:
            await worker.while_running(until_ready(log, note))
            yield worker, target


async def _measure(
    work: Work, pace: Callable[[], Pace], target: Target, pid: int | None, note: Callable[[str], None]
) -> tuple[LoadResult, CpuSeconds | None]:
    if work.warmup_requests:
        note(f"warming up with {work.warmup_requests} requests")
        await drive(work.requests("warmup", work.warmup_requests), target, pace())
    note(f"measuring {work.measured_requests} requests")
    before = cpu_seconds(pid) if pid is not None else None
    result = await drive(work.requests("bench", work.measured_requests), target, pace())
    if pid is None or before is None:
        return result, None
    after = cpu_seconds(pid)
    return result, CpuSeconds(after.main - before.main, after.children - before.children)


async def _engine_only(work: Work, folder: Path, environment: dict[str, str]) -> float:
    """Requests per second of the engine without a pipeline, from `scorestream ceiling`. Raises ToolFailure."""
    file = folder / "requests.jsonl"
    with file.open("wb") as lines:
        for _, request in work.requests("ceiling", work.measured_requests):
            lines.write(request + b"\n")
    process = await asyncio.create_subprocess_exec(
        scorestream_command(),
        "ceiling",
        str(file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        answer, messages = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ToolFailure(f"scorestream ceiling failed:\n{messages.decode(errors='replace')[-2000:]}")
    return float(json.loads(answer)["requests_per_second"])


def _report(work: Work, result: LoadResult, cpu: CpuSeconds | None, engine_only: float | None) -> Report:
    requests = len(result.latencies_seconds)
    return Report(
        task=work.task.value,
        requests=requests,
        items_per_request=1 if work.task is GeneratedTask.SCORE else work.items,
        seconds=round(result.seconds, 3),
        requests_per_second=round(result.requests_per_second, 2),
        latency_ms={
            "max" if percent == 100 else f"p{percent:g}": round(result.percentile_ms(percent), 3)  # noqa: PLR2004
            for percent in PERCENTILES
        },
        statuses=dict(result.statuses),
        main_process_cpu_us_per_request=round(cpu.main / requests * 1e6, 1) if cpu else None,
        child_processes_cpu_us_per_request=round(cpu.children / requests * 1e6, 1) if cpu else None,
        engine_only_requests_per_second=engine_only,
        ratio=round(result.requests_per_second / engine_only, 4) if engine_only else None,
    )
