"""One worker process: checks, loads, warms up, joins the group, runs the flow, drains. Owns lifecycle and signals."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from importlib.metadata import version

import structlog

from consumer import logs
from consumer.adapters.health_server import serving
from consumer.adapters.kafka_source import KafkaSource
from consumer.adapters.kafka_topics import DEFAULT_MAX_MESSAGE_BYTES
from consumer.adapters.kafka_writer import KafkaDeadLetterWriter, KafkaResultWriter
from consumer.adapters.nvml import gpu_reader
from consumer.adapters.redis_scores import RedisScores
from consumer.adapters.trace_export import tracer_from_environment
from consumer.check import log_warnings, servers
from consumer.clock import SystemClock
from consumer.errors import DependencyUnavailable, EngineDead, PartitionStuck, causes_of
from consumer.exit_code import exit_code_of
from consumer.flow import Flow, Ports
from consumer.health import LOOK_SECONDS, Health, Lifecycle, Watched
from consumer.interfaces import ScoringEngine, Task, TextEncoder
from consumer.loading import engine_version, find_processors, load_model, load_processors, start_engine
from consumer.metrics.exposition import Exposition
from consumer.metrics.readings import Observed
from consumer.metrics.sampler import Sampler
from consumer.model.card import ModelCard
from consumer.records import ModelIdentity
from consumer.revival import RevivableEngine
from consumer.settings import Settings
from consumer.stages.answer import Answerer, AnswerLimits
from consumer.stages.prepare import Preparer
from consumer.startup import KafkaFacts, refuse
from consumer.supervisor.link import Supervision, Unsupervised, supervision
from consumer.tasks import tasks_for
from consumer.tracing import Tracing
from schemas.wire import RequestLimits

PROGRESS_SECONDS = 10.0
"""Between two progress lines of the log, while there is progress."""
GARBAGE_OBJECTS = 50_000
"""New objects, less those that are gone again, between two collections of the young ones; Python's own is 700."""

log = structlog.get_logger()


class Worker:
    """Everything of one process, from settings to exit."""

    def __init__(self, settings: Settings, supervision: Supervision | None = None) -> None:
        self._settings = settings
        self._supervision = supervision or Unsupervised()
        self._clock = SystemClock()
        self._health = Health(settings.health, settings.kafka.rebalance_timeout_seconds, self._clock.monotonic())
        self._exposition = Exposition(self._health, self._clock, engine_version(settings.engine))
        self._asked_to_stop = asyncio.Event()
        self._signalled = False

    async def run(self) -> None:
        """Until drained.

        Raises SettingsInvalid before joining the group, EngineDead, DependencyUnavailable when it could not leave the
        group, or whatever crashed the flow.
        """
        settings = self._settings
        self._enter(Lifecycle.STARTING, version=version("scorestream"), settings=settings.model_dump(mode="json"))
        self._on_signals(_abort)
        self._supervision.on_stop(partial(_abort, signal.SIGTERM))
        async with AsyncExitStack() as closing:
            await closing.enter_async_context(serving(settings.health, self._health, self._exposition, self._clock))
            starting = asyncio.create_task(self._look_while_starting())
            closing.callback(starting.cancel)
            kafka, findings = await servers(_of_all_workers(settings, self._supervision.workers))
            refuse(findings)
            log_warnings(findings)
            assert isinstance(kafka, KafkaFacts)
            looked_at = self._clock.monotonic()
            model = await asyncio.to_thread(load_model, settings.engine)
            processors = await asyncio.to_thread(find_processors, settings.engine)

            self._enter(Lifecycle.WARMING, io_processors=processors, **model.card.describe())
            for name, advice in model.card.advice.items():
                log.warning("advice on the model", about=f"model.{name}", advice=advice)
            started, card = await start_engine(settings.engine, model.card)
            tasks = tasks_for(
                card, model.encoder, settings.limits, await load_processors(settings.engine, settings.limits, started)
            )
            engine = RevivableEngine(
                started, partial(_restarted, settings, card), settings.engine.restart_period_seconds, self._clock
            )
            closing.push_async_callback(engine.stop)

            scores = RedisScores(settings.redis)
            closing.push_async_callback(scores.close)
            owner = kafka.prefix_owner(settings.kafka)
            await scores.claim_prefix(owner, looked_at)
            claiming = asyncio.create_task(scores.keep_claim(owner))
            closing.callback(claiming.cancel)
            results = KafkaResultWriter(settings.kafka, _max_bytes(kafka, settings.kafka.result_topic))
            closing.push_async_callback(results.close)
            dead_letters = KafkaDeadLetterWriter(settings.kafka, _max_bytes(kafka, settings.kafka.dead_letter_topic))
            closing.push_async_callback(dead_letters.close)
            source = KafkaSource(
                settings.kafka,
                settings.commit.timeout_seconds,
                settings.limits.max_unpacked_bytes or settings.limits.room_for_one_bytes,
            )
            tracing = Tracing(tracer_from_environment(), settings.kafka.group_id, self._clock)
            ports = Ports(source, engine, results, dead_letters, scores, tracing)
            flow = self._flow(ports, card, model.encoder, tasks, kafka)
            closing.push_async_callback(source.leave)
            self._health.watched = Watched(
                flow.ledger.lanes,
                source.standing,
                source.failure,
                hindrances=source.hindrances,
                uncommitted=lambda: flow.fence.uncommitted,
                engine_restarting=lambda: engine.restarting,
                in_engine=lambda: flow.recovery.inside,
                last_fetch=source.last_fetch,
            )
            sampler = Sampler(flow, source.end_offsets, await asyncio.to_thread(gpu_reader), self._clock)
            self._exposition.observed = Observed(flow, engine, source, sampler, card, settings.limits)
            await self._join(source, flow, claiming)

            _collect_seldom()
            self._on_signals(self._stop)
            self._supervision.on_stop(self._asked_to_stop.set)
            starting.cancel()
            await self._until_stopped(flow, source, engine, sampler, claiming)
        if source.not_left is not None:
            raise DependencyUnavailable("kafka", source.not_left)
        self._enter(Lifecycle.STOPPED)

    async def _join(self, source: KafkaSource, flow: Flow, claiming: asyncio.Task[None]) -> None:
        """When it is this worker's turn. Raises what ends the claim of the prefix meanwhile, and then does not join."""

        async def join() -> None:
            await self._supervision.turn_to_join()
            await source.join(flow.assigned, flow.revoked)

        joining = asyncio.create_task(join())
        try:
            await _first(joining, claiming)
        finally:
            joining.cancel()

    def _flow(
        self, ports: Ports, card: ModelCard, encoder: TextEncoder, tasks: Mapping[str, Task], kafka: KafkaFacts
    ) -> Flow:
        settings = self._settings
        request_limits = RequestLimits(settings.limits.max_items, settings.redis.max_ttl_seconds)
        answer_limits = AnswerLimits(
            max_result_bytes=_max_bytes(kafka, settings.kafka.result_topic),
            max_dead_letter_bytes=_max_bytes(kafka, settings.kafka.dead_letter_topic),
            default_ttl_seconds=settings.redis.ttl_seconds,
            group_id=settings.kafka.group_id,
            worker_version=version("scorestream"),
        )
        preparer = Preparer(tasks, encoder, card.served_names, request_limits)
        answerer = Answerer(tasks, ModelIdentity(card.served_names[0], card.revision, card.fingerprint), answer_limits)
        return Flow(ports, preparer, answerer, settings, self._clock)

    async def _until_stopped(
        self, flow: Flow, source: KafkaSource, engine: ScoringEngine, sampler: Sampler, *begun: asyncio.Task[None]
    ) -> None:
        """Run until asked to stop, then drain; whatever fails before the end of that is raised, also of `begun`."""
        running = asyncio.create_task(flow.run())
        works = (self._look(flow), self._ping(flow, engine), self._progress(flow, source), sampler.run())
        beside = [*begun, *(asyncio.create_task(work) for work in works)]
        self._enter(Lifecycle.RUNNING)
        stopping = asyncio.create_task(self._asked_to_stop.wait())
        try:
            await _first(running, stopping, *beside)
            self._enter(Lifecycle.DRAINING, **flow.tally.line())
            await _first(running, asyncio.create_task(flow.drain()), *beside)
        except Exception as failure:
            self._health.failure = "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes_of(failure))
            raise
        finally:
            for task in (running, stopping, *beside):
                task.cancel()
            await asyncio.wait((running, *beside))
            log.info("totals", **flow.tally.line(), skipped_records=source.skipped_records)

    def _tell_stuck(self) -> None:
        """In the log before whoever probes the worker ends it: no await since the look."""
        for head in self._health.newly_stuck():
            log.error("partition stuck", **asdict(head) | {"seconds": round(head.seconds, 1)})

    def _tell_unread(self) -> None:
        for unread in self._health.unread.newly_too_long():
            topic, partition = unread.partition
            log.warning("partition unread", topic=topic, partition=partition, cause=unread.cause.value, why=str(unread))

    async def _look_while_starting(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._health.look(self._clock.monotonic())

    async def _look(self, flow: Flow) -> None:
        # Another engine may take minutes to start; looks that did not come meanwhile would be a loop that lags.
        async with asyncio.TaskGroup() as replacing:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    self._health.look(self._clock.monotonic())
                except PartitionStuck as stuck:
                    if not stuck.in_engine:
                        raise
                    replacing.create_task(flow.engine_hangs(EngineDead(str(stuck))))
                self._tell_stuck()
                self._tell_unread()

    async def _ping(self, flow: Flow, engine: ScoringEngine) -> None:
        """Of an engine that hangs, and of one that died idle, nothing else tells."""
        hang_seconds = self._settings.engine.hang_seconds
        while True:
            await asyncio.sleep(hang_seconds / 3)
            try:
                await engine.ping(hang_seconds)
            except EngineDead as silence:
                await flow.engine_hangs(silence)

    async def _progress(self, flow: Flow, source: KafkaSource) -> None:
        before: dict[str, object] = {}
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            now = flow.tally.line() | {"skipped_records": source.skipped_records}
            if now != before:
                log.info(
                    "progress",
                    **now,
                    in_engine=flow.window.sequences,
                    lanes=len(flow.ledger.lanes),
                    loop_lag_ms=round(1000 * self._health.loop_lag_seconds),
                )
            before = now

    def _on_signals(self, react: Callable[[signal.Signals], None]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, react, number)

    def _stop(self, number: signal.Signals) -> None:
        if self._signalled:
            _abort(number)
        self._signalled = True
        self._asked_to_stop.set()

    def _enter(self, state: Lifecycle, **facts: object) -> None:
        self._health.lifecycle = state
        log.info(state.value, **facts)


async def _first(*tasks: asyncio.Task[object]) -> None:
    """Wait for the first to end; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def _abort(number: signal.Signals) -> None:
    """Quit now: nothing is drained or committed, so nothing is lost. The engine's processes must not stay behind."""
    log.warning("quitting at once", signal=number.name)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)


async def _restarted(settings: Settings, card: ModelCard) -> ScoringEngine:
    engine, _ = await start_engine(settings.engine, card)
    return engine


def _of_all_workers(settings: Settings, workers: int) -> Settings:
    """What the checks look at: a supervised worker's own settings are for one."""
    return settings.model_copy(update={"workers": settings.workers.model_copy(update={"count": workers})})


def _collect_seldom() -> None:
    """Let the garbage collector leave alone what lives as long as the process, and look at the rest less often.

    At Python's own thresholds it took about 30 us of each short request (of 240, without an engine), half of that in
    full collections of 60 ms, during which nothing else runs, and vLLM's modules make those longer. So: below 4 us.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)


def _max_bytes(kafka: KafkaFacts, topic: str) -> int:
    return kafka.topics[topic].max_message_bytes or DEFAULT_MAX_MESSAGE_BYTES


def main(settings: Settings) -> int:
    """Run one worker; returns the exit code."""
    logs.configure()

    async def work() -> int:
        async with supervision() as supervised:
            await Worker(settings, supervised).run()
        return 0

    return exit_code_of(work)
