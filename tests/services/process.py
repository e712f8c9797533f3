"""A server process that a test can start, stop, kill, freeze and start again on the same port and data."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PR_SET_PDEATHSIG = 1
DIE_WITH_PARENT = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Run by a Python that then becomes the server: the kernel kills it when the tests end, however they end.

Not preexec_fn, which may deadlock in a process with threads.
"""

STARTING_SECONDS = 120.0
STOPPING_SECONDS = 30.0
CHECK_EVERY_SECONDS = 0.05
LOG_TAIL_BYTES = 4000


class ServiceFailed(Exception):
    """A server did not start or stop; the message ends with the tail of its log."""


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive ports of 127.0.0.1 on which nobody listens.

    Below the kernel's ephemeral range: there, a client that reconnects to a stopped server can be given the very port
    that it dials, and then is connected to itself.
    """
    for _ in range(200):
        first = random.randrange(20_000, 32_000)
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise ServiceFailed(f"found no {count} consecutive free ports between 20000 and 32000")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose old connections linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class ServerProcess:
    """One server process and its log file. Subclasses give `command` and `check_ready`."""

    name = "server"

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        """What to run and its environment; may prepare the folder. May block."""
        raise NotImplementedError

    async def check_ready(self) -> None:
        """Ask the server something a client would ask. Raises whatever the client raises while it is not ready."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """Of the running process. Raises ServiceFailed when it was never started or has been stopped."""
        if self._process is None:
            raise ServiceFailed(f"{self.name} is not running")
        return self._process.pid

    async def start(self) -> None:
        """Start and wait until a client is answered. Raises ServiceFailed with the tail of the log."""
        if self._process is not None:
            raise ServiceFailed(f"{self.name} is running already")
        self.folder.mkdir(parents=True, exist_ok=True)
        command, environment = await asyncio.to_thread(self.command)
        self._process = self._spawn(command, environment)
        try:
            await self.wait_ready()
        except ServiceFailed:
            await self.kill()
            raise

    async def wait_ready(self, timeout_seconds: float = STARTING_SECONDS) -> None:
        """Wait until a client is answered. Raises ServiceFailed when the process ends or the time does."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            if self._process is None or self._process.poll() is not None:
                raise self._failed("ended while starting")
            try:
                # First the bare port: clients log every refused connection.
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                async with asyncio.timeout(5):
                    await self.check_ready()
            except Exception as not_yet:
                if time.monotonic() > deadline:
                    raise self._failed(f"not ready after {timeout_seconds:g} s ({not_yet!r})") from not_yet
                await asyncio.sleep(CHECK_EVERY_SECONDS)
            else:
                return

    async def stop(self) -> None:
        """SIGTERM, and wait for the end. Raises ServiceFailed, after SIGKILL, when it does not come."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGTERM)
        try:
            await self._wait(STOPPING_SECONDS)
        except subprocess.TimeoutExpired:
            await self.kill()
            raise self._failed(f"did not stop within {STOPPING_SECONDS:g} s") from None

    async def kill(self) -> None:
        """SIGKILL, as the kernel's out-of-memory killer would; returns when the process is gone.

        Also the end of a test, where nothing is asked of the server any more: a broker takes seconds to stop in order.
        """
        if self._process is not None:
            self._process.kill()
            await self._wait(STOPPING_SECONDS)

    async def restart(self) -> None:
        """Start again on the same port and data, after stop(), kill() or while running."""
        await self.stop()
        await self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: it goes on as if nothing had happened."""
        os.kill(self.pid, signal.SIGCONT)

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own group: Ctrl-C in the terminal is for the tests, which then stop it in order.
                process_group=0,
            )

    async def _wait(self, timeout_seconds: float) -> None:
        process = self._process
        if process is not None:
            await asyncio.to_thread(process.wait, timeout_seconds)
            self._process = None

    def _failed(self, what: str) -> ServiceFailed:
        tail = self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if self.log.exists() else ""
        return ServiceFailed(f"{self.name} on port {self.port} {what}; the end of {self.log}:\n{tail}")


async def wait_until(
    condition: Callable[[], bool], what: str, timeout_seconds: float = 30.0, every_seconds: float = 0.02
) -> None:
    """Wait for a condition. Raises TimeoutError naming it."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_seconds:g} s: {what}")
        await asyncio.sleep(every_seconds)


def is_alive(pid: int) -> bool:
    """Whether there is such a process that is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # also when it ends between being found and being read
        return False
    return state != "Z"
