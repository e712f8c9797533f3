"""A worker as an orchestrator runs it: at one address, started again when it ends, and when it is not live."""

import asyncio
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from tests.chaos.incidents.rules import FACTOR
from tests.services.process import free_port
from tests.services.worker import WorkerProcess

PROBE_SECONDS = 10 / FACTOR
"""The chart's `probes.liveness.periodSeconds`."""
FAILURES = 3
"""Its `failureThreshold`: so many in a row, and the worker is killed. Whoever does not answer is left alone here."""
ANSWER_SECONDS = 5.0
BACK_OFF_SECONDS = 1.0
SILENT = "silent"
_CONDITION = re.compile(r"^(?:worker \d+: \w+: )?(\w+):", re.MULTILINE)
"""In a line of one worker, or of one of a supervisor's."""


class Pod:
    """`settings` are the worker's, by their dotted names; of several workers in it, `workers.count` says how many."""

    def __init__(self, name: str, folder: Path, settings: Mapping[str, object]) -> None:
        self.name = name
        self.port = free_port()
        self.processes: list[WorkerProcess] = []
        """The last one runs, or has just ended."""
        self.settings = {**settings, "health.host": "127.0.0.1", "health.port": self.port}
        """Of the next process."""
        self._folder = folder / name

    @property
    def url(self) -> str:
        """Of /readyz, /livez and /metrics."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> WorkerProcess:
        """Of its worker, or of the supervisor of its workers."""
        return self.processes[-1]

    async def keep_up(self) -> None:
        """Run a worker, again and again, until cancelled; it is killed then."""
        try:
            while True:
                self.processes.append(WorkerProcess(self._folder, self.settings))
                self.process.spawn()
                await self._until_over(self.process)
                await asyncio.sleep(BACK_OFF_SECONDS)
        finally:
            if self.process.exit_code is None:
                self.process.send(signal.SIGKILL)

    async def workers(self) -> dict[int, int]:
        """Number -> pid of each that a supervisor has. Raises aiohttp.ClientError while it does not answer."""
        accept = {"Accept": "application/json"}
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/readyz", headers=accept) as got:
            workers = (await got.json())["workers"]
        return {one["worker"]: one["pid"] for one in workers if one["pid"]}

    async def conditions(self, path: str) -> set[str]:
        """What is wrong, by name; SILENT of whoever does not answer."""
        status, text = await self.ask(path)
        if status == 200:
            return set()
        return set(_CONDITION.findall(text)) if status else {SILENT}

    async def ask(self, path: str) -> tuple[int, str]:
        """Status and text; (0, what went wrong) from whoever does not answer."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self.url + path) as got,
            ):
                return got.status, await got.text()
        except (aiohttp.ClientError, TimeoutError) as silence:
            return 0, repr(silence)

    async def _until_over(self, process: WorkerProcess) -> None:
        failures = 0
        while process.exit_code is None:
            await asyncio.sleep(PROBE_SECONDS)
            status, _ = await self.ask("/livez")
            failures = failures + 1 if status == 503 else 0
            if failures >= FAILURES and process.exit_code is None:
                process.send(signal.SIGKILL)
