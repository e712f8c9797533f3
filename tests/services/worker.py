"""A real worker process under test, driven from outside: environment in, logs out, signals."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.services.process import DIE_WITH_PARENT, ServiceFailed

STARTING_SECONDS = 240.0


class WorkerProcess:
    """`scorestream run` with its settings in the environment; its log lines are JSON in `folder`/worker.log."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"worker-{time.time_ns()}.log"
        # Several workers share the test's machine; a test that asks for their health chooses a port.
        self._environment = (
            os.environ
            | {"SCORESTREAM_HEALTH__PORT": "0"}
            | {"SCORESTREAM_" + path.upper().replace(".", "__"): str(value) for path, value in settings.items()}
        )
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start and wait until it runs, that is, has joined the group."""
        self.spawn()
        await self.wait_for_event("running", STARTING_SECONDS)

    def spawn(self) -> None:
        """Start without waiting."""
        command = [sys.executable, "-m", "consumer.entry", "run"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, *command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def events(self) -> list[dict[str, Any]]:
        """Every log line that is JSON, in order."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    async def wait_for_event(self, name: str, timeout_seconds: float = 30.0) -> dict[str, Any]:
        """The first log line with this event. Raises ServiceFailed when the process ends first, or time is up."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            for event in self.events():
                if event.get("event") == name:
                    return event
            if self.exit_code is not None:
                raise ServiceFailed(f"the worker ended with {self.exit_code} before {name!r}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServiceFailed(f"no {name!r} within {timeout_seconds:g} s:\n{self.tail()}")
            await asyncio.sleep(0.05)

    @property
    def pid(self) -> int:
        """Of the worker's main process."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the main process only; nothing happens when it has ended."""
        assert self._process is not None
        self._process.send_signal(number)

    async def wait(self, timeout_seconds: float = 60.0) -> int:
        """Its exit code."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, timeout_seconds)

    async def stop(self) -> int:
        """SIGTERM; the exit code. SIGKILL after a minute."""
        if self.exit_code is None:
            self.send(signal.SIGTERM)
            try:
                return await self.wait()
            except subprocess.TimeoutExpired:
                self.send(signal.SIGKILL)
                raise ServiceFailed(f"the worker did not drain:\n{self.tail()}") from None
        assert self.exit_code is not None
        return self.exit_code

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:]
