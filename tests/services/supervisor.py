"""A real supervisor with its real workers under test, driven from outside: environment in, logs and health out."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.services.probe import ANSWER_SECONDS
from tests.services.process import ServiceFailed, free_port
from tests.services.worker import STARTING_SECONDS, WorkerProcess

ASK_EVERY_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Standing:
    """What /readyz says of all. `problem`: of the supervisor itself; `workers`: what it says of each."""

    ok: bool
    problem: str | None
    workers: list[dict[str, Any]]

    @property
    def pids(self) -> dict[int, int]:
        """Of each worker that has a process."""
        return {one["worker"]: one["pid"] for one in self.workers if one["pid"]}

    def phase(self, worker: int) -> str:
        """Of one worker."""
        return str(self.workers[worker]["phase"])

    def conditions(self, worker: int) -> set[str]:
        """What is wrong with one worker, by name."""
        return {reason["condition"] for reason in self.workers[worker]["reasons"]}


class SupervisorProcess(WorkerProcess):
    """`scorestream run --workers N`; the log of all is JSON in `folder`/worker.log, `worker` says whose a line is."""

    def __init__(self, folder: Path, settings: Mapping[str, object], workers: int) -> None:
        self.port = free_port()
        super().__init__(folder, {**settings, "workers.count": workers, "health.port": self.port})

    async def start(self, within_seconds: float = STARTING_SECONDS) -> None:
        """Start and wait until all workers are ready."""
        self.spawn()
        await self.until(lambda standing: standing.ok, "all are ready", within_seconds)

    async def ask(self, path: str = "/readyz") -> Standing:
        """Raises aiohttp.ClientError while nobody listens, TimeoutError when nobody answers."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)) as session,
            session.get(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": "application/json"}) as got,
        ):
            document = await got.json()
            assert (got.status == 200) is document["ok"]
            return Standing(**document)

    async def metrics(self) -> str:
        """Of all workers."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}/metrics") as got:
            assert got.status == 200
            return await got.text()

    async def until(self, wanted: Callable[[Standing], bool], what: str, timeout_seconds: float = 60.0) -> Standing:
        """The first standing that is wanted. Raises ServiceFailed with the last one."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                standing = await self.ask()
            except (aiohttp.ClientError, TimeoutError) as silence:
                last: object = silence
            else:
                if wanted(standing):
                    return standing
                last = standing
            if self.exit_code is not None:
                raise ServiceFailed(f"the supervisor ended with {self.exit_code} before {what}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServiceFailed(f"not within {timeout_seconds:g} s: {what}; {last}:\n{self.tail()}")
            await asyncio.sleep(ASK_EVERY_SECONDS)

    def interrupt(self) -> None:
        """As Ctrl-C in a terminal: SIGINT to the whole foreground process group."""
        os.killpg(self.pid, signal.SIGINT)

    def abandon(self) -> None:
        """SIGKILL to the supervisor; its workers then end by themselves."""
        if self.exit_code is None:
            self.send(signal.SIGKILL)

    def told(self, event: str, worker: int | None = None) -> list[dict[str, Any]]:
        """Log lines with this event, of one worker or about it, or of all."""
        return [one for one in self.events() if one.get("event") == event and worker in (None, one.get("worker"))]
