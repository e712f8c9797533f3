"""A supervisor in the test's own process, over workers that only look like ones."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from consumer.clock import SystemClock
from consumer.settings import load_settings
from consumer.supervisor.plan import plan_workers
from consumer.supervisor.supervisor import Supervisor
from tests.services.process import wait_until

Lives = Mapping[int, Sequence[str]]
WORKER = ["-m", "tests.fakes.supervised_worker"]


class Supervised:
    """`gpus`: of each worker; as many workers."""

    def __init__(
        self, folder: Path, lives: Lives, gpus: Sequence[tuple[str, ...]], settings: Mapping[str, object]
    ) -> None:
        self._journal = folder / "journal"
        self._settings = load_settings(
            {"engine.kind": "scripted", "health.port": 0, "workers.count": len(gpus)} | dict(settings)
        )
        command = [sys.executable, *WORKER, str(self._journal), json.dumps(lives), "run"]
        plans = plan_workers(self._settings, gpus, folder)
        self.supervisor = Supervisor(self._settings, plans, command, folder, SystemClock())

    @property
    def journal(self) -> list[dict[str, Any]]:
        """What the workers noted, in the order of time."""
        return [json.loads(line) for line in self._journal.read_text().splitlines()] if self._journal.exists() else []

    def steps(self, step: str) -> list[int]:
        """The workers that noted this step, in the order of time."""
        return [one["worker"] for one in self.journal if one["step"] == step]

    async def until_steps(self, step: str, count: int) -> None:
        """Until so many have noted it. Raises TimeoutError."""
        await wait_until(lambda: len(self.steps(step)) >= count, f"{count} x {step}: {self.journal}")


@asynccontextmanager
async def supervised(
    folder: Path, lives: Lives, gpus: Sequence[tuple[str, ...]] = ((), ()), **settings: object
) -> AsyncIterator[Supervised]:
    """It runs until the block ends, and then has ended with 0. Two underscores in a setting's name are a dot."""
    made = Supervised(folder, lives, gpus, {name.replace("__", "."): value for name, value in settings.items()})
    running = asyncio.create_task(made.supervisor.run())
    try:
        yield made
        made.supervisor.stop()
        assert await running == 0
    finally:
        running.cancel()
        await asyncio.wait([running])


async def exit_code(folder: Path, lives: Lives) -> tuple[int, Supervised]:
    """Of a supervisor of two workers that nobody stops."""
    made = Supervised(folder, lives, ((), ()), {})
    async with asyncio.timeout(60):
        return await made.supervisor.run(), made
