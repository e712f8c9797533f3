"""Workers that come back whatever ends them, as under any supervisor, and what was wrong with how they ended."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.services.process import ServiceFailed
from tests.services.worker import WorkerProcess

RUNNING_SECONDS = 120.0
"""By then a worker runs, also when the servers were away for a while."""
REFUSED_TO_START = (1, 2)
"""Documented: so ends a worker that cannot start because a server is away."""
NOT_LEFT, NOT_LEFT_EXIT_CODE = "did not leave the group; the session has to expire", 1
ENGINE_DIED_AGAIN = 1
"""Documented: so ends a worker whose engine dies for the second time within engine.restart_period_seconds (an hour)."""
BACK_OFF_SECONDS = 0.3
LOOK_SECONDS = 0.02


class Slot:
    """A place for one worker process, filled again whenever it is empty."""

    def __init__(
        self,
        name: str,
        folder: Path,
        settings: Mapping[str, object],
        stop_seconds: float,
        running_seconds: float = RUNNING_SECONDS,
    ) -> None:
        self.name = name
        self.wrong: list[str] = []
        """Ends that are not documented, and stops that took too long."""
        self.processes: list[WorkerProcess] = []
        self.engine_ends = 0
        """Ends because the engine had died again."""
        self._folder = folder
        self._settings = settings
        self._stop_seconds = stop_seconds
        self._running_seconds = running_seconds
        self._alive, self._running, self._gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._one_move = asyncio.Lock()
        self._expected: int | None = None
        self._retired = False

    async def keep_up(self) -> None:
        """Fill the place again and again, until it is retired."""
        while not self._retired:
            process = WorkerProcess(self._folder, self._settings)
            self.processes.append(process)
            self._expected = None
            self._gone.clear()
            process.spawn()
            self._alive.set()
            await self._wait_running(process)
            while process.exit_code is None:  # noqa: ASYNC110 -- nobody tells but the kernel
                await asyncio.sleep(LOOK_SECONDS)
            self._judge(process)
            self._alive.clear()
            self._running.clear()
            self._gone.set()
            await asyncio.sleep(BACK_OFF_SECONDS)

    async def until_running(self) -> None:
        """Wait until its process runs. Raises TimeoutError naming it."""
        try:
            async with asyncio.timeout(self._running_seconds):
                await self._running.wait()
        except TimeoutError:
            raise TimeoutError(f"worker {self.name} does not run: {self.processes[-1].tail()}") from None

    async def kill(self) -> None:
        """SIGKILL at any moment of its life."""
        async with self._one_move:
            await self._alive.wait()
            await self._end(signal.SIGKILL, -signal.SIGKILL)

    async def kill_engine(self) -> None:
        """SIGKILL to the process of a warm vLLM engine."""
        async with self._one_move:
            async with asyncio.timeout(self._running_seconds):
                while (engine := self._warm_engine()) is None:  # noqa: ASYNC110 -- nobody tells
                    await asyncio.sleep(LOOK_SECONDS)
            os.kill(engine, signal.SIGKILL)

    async def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long: it must go on."""
        async with self._one_move:
            await self.until_running()
            self.processes[-1].send(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self.processes[-1].send(signal.SIGCONT)

    async def terminate(self) -> None:
        """SIGTERM: it must end with 0, in time."""
        async with self._one_move:
            await self.until_running()
            await self._terminate()

    async def retire(self) -> None:
        """As `terminate`, and the place stays empty."""
        async with self._one_move:
            await self.until_running()
            self._retired = True
            await self._terminate()

    async def remove(self) -> None:
        """As `kill`, and the place stays empty."""
        async with self._one_move:
            await self._alive.wait()
            self._retired = True
            await self._end(signal.SIGKILL, -signal.SIGKILL)

    def abandon(self) -> None:
        """SIGKILL without judgement: the drill is over."""
        if self.processes and self.processes[-1].exit_code is None:
            self.processes[-1].send(signal.SIGKILL)

    async def _terminate(self) -> None:
        try:
            async with asyncio.timeout(self._stop_seconds):
                await self._end(signal.SIGTERM, 0)
        except TimeoutError:
            tail = self.processes[-1].tail()
            self.wrong.append(f"worker {self.name} not gone {self._stop_seconds:g} s after SIGTERM: {tail}")
            await self._end(signal.SIGKILL, -signal.SIGKILL)

    async def _end(self, number: signal.Signals, expected: int) -> None:
        self._expected = expected
        self.processes[-1].send(number)
        await self._gone.wait()

    async def _wait_running(self, process: WorkerProcess) -> None:
        try:
            await process.wait_for_event("running", self._running_seconds)
        except ServiceFailed as failed:
            if process.exit_code is None:
                self.wrong.append(f"worker {self.name}: {failed}")
                self._expected = -signal.SIGKILL
                process.send(signal.SIGKILL)
        else:
            self._running.set()

    def _judge(self, process: WorkerProcess) -> None:
        allowed = {self._expected}
        if not self._running.is_set():
            allowed |= {*REFUSED_TO_START}
        if self._expected == 0 and _count(process, NOT_LEFT):
            # No broker was there to take its leave.
            allowed = {NOT_LEFT_EXIT_CODE}
        deaths = _count(process, "engine died")
        if deaths > 1:
            # It must not go on, whatever else it was told.
            allowed = allowed - {0} | {ENGINE_DIED_AGAIN}
            self.engine_ends += process.exit_code == ENGINE_DIED_AGAIN
        if process.exit_code not in allowed:
            how = f"ended with {process.exit_code} after {deaths} deaths of its engine"
            self.wrong.append(f"worker {self.name} {how}: {process.tail()}")

    def _warm_engine(self) -> int | None:
        """The pid of the engine's process, unless it is being started."""
        process = self.processes[-1]
        warm = _count(process, "restarting the engine") == _count(process, "engine restarted")
        return engine_process(process.pid) if self._running.is_set() and warm else None


def _count(process: WorkerProcess, name: str) -> int:
    return sum(event["event"] == name for event in process.events())


def engine_process(worker_pid: int) -> int | None:
    """The pid of vLLM's EngineCore below a worker, once it has taken its name."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_text()
        except OSError:
            continue  # it has ended meanwhile
        if parent == worker_pid and "EngineCore" in command:
            return int(folder.name)
    return None
