"""The place of one worker, filled again whenever it is empty."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import structlog

from consumer.clock import Clock
from consumer.signals import Signal
from consumer.supervisor.health import Reason, WorkerHealth
from consumer.supervisor.link import Word
from consumer.supervisor.plan import WorkerPlan, as_arguments
from consumer.supervisor.probe import ask, ask_reasons
from consumer.supervisor.process import WorkerProcess
from consumer.supervisor.restarts import End, GiveUp, Restarts
from consumer.supervisor.roster import Phase, Roster

log = structlog.get_logger()


class GivenUp(Exception):
    """No restart mends this. `exit_code`: of the supervisor."""

    def __init__(self, exit_code: int, why: str) -> None:
        super().__init__(why)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Shared:
    """What all slots of one supervisor have in common. `command`: a worker's, without the settings of its own."""

    roster: Roster
    changed: Signal
    """Notified when anything in the roster has changed."""
    stopping: asyncio.Event
    """Set when nothing is to be started any more."""
    command: Sequence[str]
    remembered_seconds: float
    """How long the group still counts on a member that was killed."""
    clock: Clock


class Slot:
    """One worker process after another, never two."""

    def __init__(self, plan: WorkerPlan, shared: Shared) -> None:
        self.plan = plan
        self._shared = shared
        self._process: WorkerProcess | None = None
        self._joined_at: float | None = None
        self._restarts = Restarts()
        self._longest_run_seconds = 0.0
        self._why_down = ""

    @property
    def phase(self) -> Phase:
        """Where its worker is."""
        return self._shared.roster.phase(self.plan.index)

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process else None

    @property
    def longest_run_seconds(self) -> float:
        """Of all its workers so far, from when one was let join."""
        return max(self._longest_run_seconds, self._ran_seconds())

    async def keep_filled(self, proven: Callable[[], bool]) -> End | None:
        """Until stopping; how its last worker then ended, None when there was none.

        `proven`: whether any worker has lasted long. Raises GivenUp; its worker has ended then.
        """
        shared = self._shared
        while not shared.stopping.is_set():
            end = await self.live()
            if end is None or shared.stopping.is_set():
                return end
            verdict = self._restarts.after(end, shared.clock.monotonic(), proven=proven())
            if isinstance(verdict, GiveUp):
                self._note_down(verdict.why)
                raise GivenUp(verdict.exit_code, verdict.why)
            log.warning("restarting", worker=self.plan.index, after_seconds=verdict.after_seconds)
            self._note_down(f"{end.reason}; starts again {verdict.after_seconds:g} s later")
            with suppress(TimeoutError):
                async with asyncio.timeout(verdict.after_seconds):
                    await shared.stopping.wait()
        return None

    async def live(self) -> End | None:
        """The life of one worker, from its turn to start to its end; None when its turn does not come any more."""
        index, roster, stopping = self.plan.index, self._shared.roster, self._shared.stopping
        self._enter(Phase.WAITING)
        while not roster.may_start(index) and not stopping.is_set():
            await self._shared.changed.wait()
        if stopping.is_set():
            return None
        self._process = process = WorkerProcess(
            [*self._shared.command, *as_arguments(self.plan.overrides)],
            {**os.environ, **self.plan.environment},
            self._warm,
        )
        self._enter(Phase.STARTING)
        log.info("worker started", worker=index, pid=process.pid, gpus=",".join(self.plan.gpus) or None)
        try:
            exit_code, reason = await process.ended()
            if exit_code < 0 and self._joined_at is not None:
                roster.hold_back(index, self._shared.clock.monotonic() + self._shared.remembered_seconds)
            if exit_code == 0 and self._joined_at is None:
                reason = "it ended with exit code 0 before it had joined the group"
            end = End(exit_code, reason, self._ran_seconds())
        finally:
            self._longest_run_seconds = self.longest_run_seconds
            self._process = self._joined_at = None
        self._note_down(reason)
        # One that had not joined when all were told to stop only quit.
        as_asked = exit_code == 0 if end.ran_seconds else stopping.is_set()
        tell = log.info if as_asked else log.error
        tell("worker ended", worker=index, exit_code=exit_code, reason=reason, ran_seconds=round(end.ran_seconds, 1))
        return end

    def join(self) -> None:
        """Let the worker, which is warm, join the group."""
        assert self._process is not None
        self._process.tell(Word.JOIN)
        self._joined_at = self._shared.clock.monotonic()
        self._enter(Phase.RUNNING)

    def drain(self) -> None:
        """A worker that runs finishes what is in flight, any other quits; whoever waits for its turn looks again."""
        if self._process is not None:
            if self._joined_at is None:
                self._process.quit()
            else:
                self._process.tell(Word.DRAIN)
        self._shared.changed.notify()

    def kill(self) -> None:
        """SIGKILL to the worker and its engine."""
        if self._process is not None:
            self._process.kill()

    def standing(self) -> tuple[Reason, ...]:
        """Why its worker does not run, as far as that is known without asking it."""
        if self.phase is Phase.RUNNING:
            return ()
        return (Reason(f"worker_{self.phase}", self._why_down if self.phase is Phase.DOWN else _MEANING[self.phase]),)

    async def health(self, path: str, timeout_seconds: float) -> WorkerHealth:
        """As its worker answers on that path; without asking one that does not run."""
        reasons = self.standing() or await ask_reasons(self.plan.unix_socket, path, timeout_seconds)
        return WorkerHealth(self.plan.index, self.phase, self.pid, reasons)

    async def metrics(self, timeout_seconds: float) -> str | None:
        """Its worker's, in Prometheus's text format; None while it answers nothing."""
        try:
            answer = await ask(self.plan.unix_socket, "/metrics", timeout_seconds)
        except (aiohttp.ClientError, TimeoutError):
            return None
        return answer.body if answer.status == HTTPStatus.OK else None

    def _ran_seconds(self) -> float:
        return 0.0 if self._joined_at is None else self._shared.clock.monotonic() - self._joined_at

    def _warm(self) -> None:
        self._enter(Phase.WARM)
        log.info("worker warm", worker=self.plan.index)

    def _note_down(self, why: str) -> None:
        """It is empty for now."""
        self._why_down = why
        self._enter(Phase.DOWN)

    def _enter(self, phase: Phase) -> None:
        self._shared.roster.enter(self.plan.index, phase, self._shared.clock.monotonic())
        self._shared.changed.notify()


_MEANING = {
    Phase.WAITING: "it waits for its turn to start",
    Phase.STARTING: "it loads its model",
    Phase.WARM: "it waits for the others to join with, or for the group to forget its predecessor, which was killed",
}
