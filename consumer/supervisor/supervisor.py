"""The supervising process: starts the workers, lets them join together, watches them, and ends them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import structlog
from aiohttp import hdrs, web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from consumer.adapters.http_server import listening
from consumer.clock import Clock
from consumer.sections import Mps
from consumer.settings import Settings
from consumer.signals import Signal
from consumer.supervisor.health import WorkerHealth, as_document, as_text
from consumer.supervisor.metrics import exposition
from consumer.supervisor.mps import DAEMON_ENDED, mps_daemon
from consumer.supervisor.plan import WorkerPlan, start_rule
from consumer.supervisor.restarts import HEALTHY_SECONDS, End
from consumer.supervisor.roster import Phase, Roster
from consumer.supervisor.slot import GivenUp, Shared, Slot

PROBE_SECONDS = 0.8
"""For a worker's answer to a probe of all; Kubernetes waits for a second by default."""
SCRAPE_SECONDS = 5.0
"""For a worker's metrics; Prometheus waits for ten by default."""
WATCH_SECONDS, WATCH_ANSWER_SECONDS, WATCH_FAILURES = 10.0, 5.0, 3
"""Between two looks at whether the workers are live; for an answer; so many looks in a row mean a restart."""

log = structlog.get_logger()


class Supervisor:
    """Everything of the supervising process. `command`: a worker's, without the settings of its own."""

    def __init__(
        self, settings: Settings, plans: Sequence[WorkerPlan], command: Sequence[str], folder: Path, clock: Clock
    ) -> None:
        self._settings = settings
        self._changed = Signal()
        gpus = [plan.gpus for plan in plans]
        self._roster = Roster(gpus, start_rule(settings.engine), settings.workers.join_timeout_seconds)
        self._stopping = asyncio.Event()
        shared = Shared(self._roster, self._changed, self._stopping, command, _remembered_seconds(settings), clock)
        self._slots = [Slot(plan, shared) for plan in plans]
        self._folder = folder
        self._clock = clock
        self._problem: str | None = None
        self._signalled = False

    async def run(self) -> int:
        """Until told to stop, or until it gives up; the exit code. Raises SettingsInvalid."""
        async with _signals(self._on_signal), listening(self._settings.health, self._app()), self._mps() as daemon_end:
            conducting, watching = asyncio.create_task(self._conduct()), asyncio.create_task(self._watch())
            living = [asyncio.create_task(slot.keep_filled(self._has_proven)) for slot in self._slots]
            ends: list[asyncio.Future[Any]] = [*living, conducting, watching, daemon_end]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for endless in (conducting, watching):
                    if endless.done():
                        endless.result()
                return await self._wind_up(living)
            finally:
                # A life that is cancelled kills its worker.
                for task in (*living, conducting, watching):
                    task.cancel()
                await asyncio.wait((*living, conducting, watching))

    def stop(self) -> None:
        """Let every worker drain; `run` returns when all have ended."""
        self._stopping.set()
        for slot in self._slots:
            slot.drain()

    async def _wind_up(self, living: Sequence[asyncio.Task[End | None]]) -> int:
        """Either all were told to stop, or something is at its end and they are told now; the exit code."""
        if not self._stopping.is_set():
            failures = [one.exception() for one in living if one.done()]
            self._problem = str(failures[0]) if failures else DAEMON_ENDED
            log.error("giving up", reason=self._problem)
            self.stop()
        await asyncio.wait(living)
        for one in living:
            if isinstance(failure := one.exception(), GivenUp):
                return failure.exit_code
        members = [end for one in living if (end := one.result()) is not None and end.ran_seconds]
        drained = members and all(end.exit_code == 0 for end in members)
        return 0 if drained and self._problem is None else 1

    def _mps(self) -> AbstractAsyncContextManager[asyncio.Future[None]]:
        """The daemon, where the settings ask for one; what is done when it has ended."""
        if self._settings.workers.mps is Mps.ON:
            return mps_daemon(self._folder)
        return nullcontext(asyncio.get_running_loop().create_future())

    def _has_proven(self) -> bool:
        """Whether any worker has been healthy for long with these settings."""
        return any(slot.longest_run_seconds >= HEALTHY_SECONDS for slot in self._slots)

    async def _conduct(self) -> None:
        """Let those join whose turn it is."""
        while True:
            now = self._clock.monotonic()
            if joining := self._roster.joining(now):
                log.info("workers join the group together", workers=joining)
                for index in joining:
                    self._slots[index].join()
            await self._changed.wait(self._roster.seconds_to_next_join(now))

    async def _watch(self) -> None:
        """Kill a worker that is not live for several looks in a row, as an orchestrator would if it were alone."""
        failures: Counter[int | None] = Counter()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            running = [slot for slot in self._slots if slot.phase is Phase.RUNNING and not self._stopping.is_set()]
            pids = [slot.pid for slot in running]
            looks = await asyncio.gather(*(slot.health("/livez", WATCH_ANSWER_SECONDS) for slot in running))
            failures = Counter({pid: failures[pid] + 1 for pid, look in zip(pids, looks, strict=True) if look.reasons})
            for slot, pid, look in zip(running, pids, looks, strict=True):
                if failures[pid] >= WATCH_FAILURES and slot.pid == pid:
                    why = "; ".join(f"{reason.condition}: {reason.detail}" for reason in look.reasons)
                    log.error("killing a worker that is not live", worker=look.worker, reason=why)
                    slot.kill()
                    del failures[pid]

    def _on_signal(self, number: signal.Signals) -> None:
        if self._signalled:
            log.warning("quitting at once", signal=number.name)
            for slot in self._slots:
                slot.kill()
            os._exit(1)
        self._signalled = True
        log.info("draining all workers", signal=number.name)
        self.stop()

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/livez", self._answer_live)
        app.router.add_get("/readyz", self._answer_ready)
        app.router.add_get("/metrics", self._answer_metrics)
        return app

    async def _answer_live(self, request: web.Request) -> web.Response:
        workers = [WorkerHealth(slot.plan.index, slot.phase, slot.pid, slot.standing()) for slot in self._slots]
        return _respond(request, self._problem, workers, ok=self._problem is None)

    async def _answer_ready(self, request: web.Request) -> web.Response:
        workers = await asyncio.gather(*(slot.health("/readyz", PROBE_SECONDS) for slot in self._slots))
        problem = self._problem or ("draining" if self._stopping.is_set() else None)
        return _respond(request, problem, workers, ok=problem is None and not any(one.reasons for one in workers))

    async def _answer_metrics(self, _request: web.Request) -> web.Response:
        answers = await asyncio.gather(*(slot.metrics(SCRAPE_SECONDS) for slot in self._slots))
        texts = {str(slot.plan.index): text for slot, text in zip(self._slots, answers, strict=True) if text}
        # Many workers have many lines, and their joining waits for this loop.
        body = await asyncio.to_thread(exposition, [slot.phase for slot in self._slots], texts)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_PLAIN_0_0_4})


def _respond(request: web.Request, problem: str | None, workers: Sequence[WorkerHealth], *, ok: bool) -> web.Response:
    status = 200 if ok else 503
    if request.headers.get(hdrs.ACCEPT) == "application/json":
        return web.json_response(as_document(problem, workers, ok=ok), status=status)
    return web.Response(text=as_text(problem, workers, ok=ok), status=status)


def _remembered_seconds(settings: Settings) -> float:
    """How long the group counts on a worker that was killed; a static member's successor takes its place."""
    return settings.kafka.session_timeout_seconds if settings.kafka.group_instance_id is None else 0.0


@asynccontextmanager
async def _signals(react: Callable[[signal.Signals], None]) -> AsyncIterator[None]:
    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, react, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
