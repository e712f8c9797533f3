"""Child processes that never outlive the tool and whose last words can be read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from producer_tools.console import ToolFailure

T = TypeVar("T")
ChildT = TypeVar("ChildT", bound="Child")

LAST_LINES = 15
LAST_LINE_CHARACTERS = 300


class ChildEnded(ToolFailure):
    """A process ended too early, or badly. `reason`: its own, else the last line of its output."""

    def __init__(self, what: str, reason: str | None, last_lines: str) -> None:
        super().__init__(f"{what}: {reason}\n{last_lines}" if reason else f"{what}\n{last_lines}")
        self.reason = reason or last_lines.splitlines()[-1].strip()


class Child:
    """A running process, its output in a file."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self.pid = process.pid
        self._process = process

    async def while_running(self, work: Coroutine[object, object, T]) -> T:
        """The outcome of `work`. Raises ChildEnded, with the last lines of output, when the process ends before it."""
        doing = asyncio.ensure_future(work)
        ending = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise self._ended(ending.result())
        finally:
            for task in (doing, ending):
                task.cancel()
            await asyncio.wait({doing, ending})

    async def ended_well(self) -> None:
        """Wait until it has ended. Raises ChildEnded, with the last lines of output, for an exit code other than 0."""
        if code := await self._process.wait():
            raise self._ended(code)

    def reason(self) -> str | None:
        """What it said of its end, for those that say it in a way of their own."""
        return None

    def last_lines(self) -> str:
        """The end of the output, to be shown when something went wrong."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join([f"last lines of {self.log}:", *(f"  {line[:LAST_LINE_CHARACTERS]}" for line in lines)])

    def _ended(self, code: int) -> ChildEnded:
        return ChildEnded(f"the {self.name} ended with exit code {code}", self.reason(), self.last_lines())

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, then SIGKILL after `grace_seconds` to the process and to all that it started in its session."""
        try:
            if self._process.returncode is None:
                self._process.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace_seconds):
                        await self._process.wait()
        finally:
            # Also when a second Ctrl-C ends the waiting.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def running(
    name: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    grace_seconds: float,
    kind: type[ChildT],
    data: Path | None = None,
) -> AsyncIterator[ChildT]:
    """Run `command` until the block ends, in a session of its own: Ctrl-C reaches this tool alone, which stops it.

    Its output goes to `log`; what it writes to stdout to `data`, if given. `kind`: Child, or one that says more.
    """
    with log.open("wb") as output, (data or log).open("ab") as printed:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=printed,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        )
    child = kind(name, process, log)
    try:
        yield child
    finally:
        await child.stop(grace_seconds)
