"""The demo, phase by phase: start everything, send real work, show the answers, verify, stop everything."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from producer_tools import options
from producer_tools.connections.kafka import Brokers
from producer_tools.connections.redis import RedisServer
from producer_tools.console import Mismatch, ToolFailure
from producer_tools.demo import page
from producer_tools.demo.corpus import QUESTIONS, collect_docstrings
from producer_tools.demo.work import EMBEDDINGS, Answers, embed_requests, rerank_requests
from producer_tools.kafka import create_topics
from producer_tools.load import ClosedLoop, LoadResult, Target, drive
from producer_tools.local.processes import Child, ChildEnded
from producer_tools.local.services import IDLE_SECONDS, Services, embedded_services
from producer_tools.local.worker import engine_environment, running_worker, service_environment, until_ready
from producer_tools.verify.audit import Topics, audit
from producer_tools.verify.cache import Cache
from producer_tools.verify.report import as_table, kept

TOPICS = Topics(options.REQUEST_TOPIC, options.RESULT_TOPIC, options.DEAD_LETTER_TOPIC)
PARTITIONS = 4
DOCUMENTS = 600
CONCURRENCY = 24
"""Requests under way at once: enough to fill the engine's batches, few enough that latency is not just queueing."""
VERIFY_SECONDS = 20.0
PHASES = {
    "starting": "checks its settings, the topics and Redis, reads the model's files",
    "warming": "starts vLLM, loads the model, warms up",
}
"""The worker's log events before it is ready, in words; another one is shown as it is."""


@dataclass(slots=True)
class _Scored:
    """What the scoring phase found out."""

    answers: Answers
    load: LoadResult
    first_score_seconds: float


async def demo(console: Console, *, keep: bool) -> None:
    """Run the demo; with `keep`, leave broker, cache and worker running until Ctrl-C.

    Raises ToolFailure when a part does not work, Mismatch when the verification fails.
    """
    started = time.monotonic()
    page.title(console)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scorestream-demo-")))
        stack.push_async_callback(_say_stopping, console)
        page.phase(console, 1, "Broker and cache", "noida-db: Kafka and Redis protocols in one small process.")
        services = await stack.enter_async_context(embedded_services(folder))
        topics = [TOPICS.requests, TOPICS.results, TOPICS.dead_letters]
        await create_topics(services.bootstrap_servers, topics, partitions=PARTITIONS)
        page.fact(console, f"Kafka at {services.bootstrap_servers}, topics {', '.join(topics)}")
        page.fact(console, f"Redis at {services.redis_url}")

        page.phase(console, 2, "Worker", "vLLM loads the model in the worker's process: about a minute on CPU.")
        environment = engine_environment() | service_environment(services)
        model = environment.get("SCORESTREAM_ENGINE__SERVED_NAMES") or environment.get("SCORESTREAM_ENGINE__MODEL")
        page.fact(console, f"model {model or 'as configured'}")
        worker = await stack.enter_async_context(running_worker(environment, folder / "worker.log"))
        try:
            await _start(console, worker)
            scored = await worker.while_running(_score(console, services, started))
            _show(console, scored)
            await _verify(console, services)
            page.by_hand(console, services)
            if keep:
                page.keeping(console, worker.log)
                await worker.while_running(asyncio.Event().wait())
        except ChildEnded:
            raise
        except ToolFailure as failure:
            raise ToolFailure(f"{failure}\n{worker.last_lines()}") from None


async def _start(console: Console, worker: Child) -> None:
    started = time.monotonic()

    def phase(event: str) -> None:
        page.fact(console, f"{time.monotonic() - started:5.1f} s  {PHASES.get(event, event)}")

    with console.status("starting"):
        await worker.while_running(until_ready(worker.log, phase))
    page.fact(console, f"{time.monotonic() - started:5.1f} s  ready: a member of its consumer group")


async def _score(console: Console, services: Services, demo_started: float) -> _Scored:
    documents = collect_docstrings(DOCUMENTS)
    page.phase(
        console,
        3,
        "Real work",
        f"{len(QUESTIONS)} questions over {len(documents)} docstrings of Python's library; "
        f"{min(EMBEDDINGS, len(documents))} embeddings.",
    )
    rankings, embeddings = list(rerank_requests(documents)), list(embed_requests(documents))
    answers = Answers()
    first: list[float] = []
    with _Live(console, {"rerank": len(rankings), "embed": len(embeddings)}) as live:

        def arrived(_request_id: str, value: bytes) -> None:
            first[:] = first or [time.monotonic() - demo_started]
            answers.take(value)
            live.show(answers)

        target = Target(Brokers(services.bootstrap_servers), TOPICS.requests, TOPICS.results, IDLE_SECONDS)
        load = await drive([*rankings, *embeddings], target, ClosedLoop(CONCURRENCY), arrived)
    if answers.errors:
        raise ToolFailure(f"requests were refused: {dict(answers.errors)}")
    return _Scored(answers, load, first[0])


def _show(console: Console, scored: _Scored) -> None:
    page.phase(console, 4, "Answers", "The best documents for each question, by cosine similarity.")
    page.rankings(console, scored.answers)
    page.speed(console, scored.load, scored.answers, scored.first_score_seconds)


async def _verify(console: Console, services: Services) -> None:
    page.phase(console, 5, "Verification", "From outside, from the topics and Redis alone: scorestream verify --redis")
    cache = Cache(RedisServer(services.redis_url), options.REDIS_PREFIX, options.TTL_SECONDS)
    outcome = await audit(
        Brokers(services.bootstrap_servers), TOPICS, wait_seconds=VERIFY_SECONDS, cache=cache, note=lambda _text: None
    )
    console.print(as_table(outcome, None))
    if not kept(outcome, None):
        raise Mismatch


async def _say_stopping(console: Console) -> None:
    console.print("\nStopped: worker, broker and cache.", style="dim")


class _Live:
    """Progress of both kinds of requests: bars on a terminal, a line per quarter elsewhere."""

    def __init__(self, console: Console, totals: dict[str, int]) -> None:
        self._console = console
        self._totals = totals
        self._quarters = 0
        self._progress = Progress(
            TextColumn("  {task.description:<7}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bars = {task: self._progress.add_task(task, total=count) for task, count in totals.items()}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def show(self, answers: Answers) -> None:
        for task, bar in self._bars.items():
            self._progress.update(bar, completed=answers.by_task[task])
        done, total = answers.by_task.total(), sum(self._totals.values())
        quarters = done * 4 // total
        if quarters > self._quarters and not self._console.is_terminal:
            page.fact(self._console, f"{done} of {total} answered")
        self._quarters = quarters
