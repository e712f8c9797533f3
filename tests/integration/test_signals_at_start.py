"""A signal to a process that still starts: it is gone at once with 1, as the first process of its container, too."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services.process import is_alive, wait_until

COMMAND = [sys.executable, "-m", "consumer.entry"]
ENDED_SECONDS = 5.0
"""A second, and what a busy machine adds."""
HEAVY = ("numpy", "uvloop", "pydantic_core", "tokenizers", "torch")
FIRST_PROCESS = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""The command's process is number 1 of a namespace, for which the kernel has no default reactions to signals."""
ALONE, FIRST = "alone", "first process"


FIRST_HANDLER = f"""
import signal, sys

def note(number, handler):
    if number == signal.SIGTERM:
        print([name for name in {HEAVY!r} if name in sys.modules])
        raise SystemExit

signal.signal = note
sys.argv = ["scorestream", *sys.argv[1:]]
from consumer.entry import main
main()
"""


def why_not_first() -> str:
    """Empty where this machine lets a test have process 1 of its own."""
    try:
        tried = subprocess.run([*FIRST_PROCESS, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unshare is not installed"
    return tried.stderr.strip()


@dataclass(frozen=True)
class Started:
    """`outer`: what the exit code comes from; `pid`: of the program itself."""

    outer: subprocess.Popen[bytes]
    pid: int
    log: Path

    def maps(self) -> str:
        return Path(f"/proc/{self.pid}/maps").read_text()

    def catches(self, number: signal.Signals) -> bool:
        status = Path(f"/proc/{self.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (number - 1) & 1)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.outer.wait, ENDED_SECONDS)

    def children(self) -> list[int]:
        return children_of(self.pid)

    def said(self) -> str:
        return self.log.read_text()


@contextmanager
def started(how: str, arguments: list[str], folder: Path, broker_port: int = 1) -> Iterator[Started]:
    if how == FIRST and (reason := why_not_first()):
        pytest.skip(f"no process 1 of its own: {reason}")
    prefix = FIRST_PROCESS if how == FIRST else []
    environment = os.environ | {
        "SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{broker_port}",
        "SCORESTREAM_ENGINE__KIND": "scripted",
        "SCORESTREAM_ENGINE__MODEL": "any",
        "SCORESTREAM_HEALTH__PORT": "0",
    }
    log = folder / "log"
    with log.open("wb") as output:
        outer = subprocess.Popen(
            [*prefix, *COMMAND, *arguments], env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield Started(outer, child_of(outer.pid) if prefix else outer.pid, log)
    finally:
        if outer.poll() is None:
            os.killpg(outer.pid, signal.SIGKILL)
            outer.wait()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def child_of(pid: int) -> int:
    deadline = time.monotonic() + ENDED_SECONDS
    while not (children := children_of(pid)):
        assert time.monotonic() < deadline
    return children[0]


@pytest.mark.parametrize("how", [ALONE, FIRST])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", [["run"], ["run", "--workers", "2"]], ids=["worker", "supervisor"])
async def test_a_signal_at_the_first_moment_ends_it_with_1(
    how: str, number: signal.Signals, arguments: list[str], tmp_path: Path
):
    with started(how, arguments, tmp_path) as process:
        await wait_until(lambda: process.catches(signal.SIGTERM), "it looks after signals", every_seconds=0.001)
        os.kill(process.pid, number)
        assert await process.ended() == 1
        assert process.said() == f"quitting at once: {number.name}\n"


@pytest.mark.parametrize("arguments", [["run"], ["run", "--workers", "2"], ["check"], ["get", "q1"]], ids=" ".join)
def test_signals_are_looked_after_before_the_first_heavy_import(arguments: list[str]):
    command = [sys.executable, "-c", FIRST_HANDLER, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "[]\n"), ran.stderr


@pytest.mark.parametrize("how", [ALONE, FIRST])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_in_the_middle_of_the_imports_ends_it_with_1(how: str, number: signal.Signals, tmp_path: Path):
    with started(how, ["run"], tmp_path) as process:
        await wait_until(lambda: "/pydantic_core" in process.maps(), "it imports", every_seconds=0.001)
        os.kill(process.pid, number)
        assert await process.ended() == 1
        assert process.said() == f"quitting at once: {number.name}\n"


@pytest.mark.parametrize("how", [ALONE, FIRST])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_it_waits_for_a_server_ends_it_with_1(how: str, number: signal.Signals, tmp_path: Path):
    asked = asyncio.Event()
    silent = await asyncio.start_server(lambda _reader, _writer: asked.set(), "127.0.0.1")
    async with silent, asyncio.timeout(60):
        with started(how, ["run"], tmp_path, silent.sockets[0].getsockname()[1]) as process:
            await asked.wait()
            os.kill(process.pid, number)
            assert await process.ended() == 1
        assert "quitting at once" in process.said()
        assert "Traceback" not in process.said()


@pytest.mark.parametrize("how", [ALONE, FIRST])
async def test_a_supervisor_whose_workers_still_import_ends_with_them_at_once(how: str, tmp_path: Path):
    with started(how, ["run", "--workers", "2"], tmp_path) as process:
        await wait_until(lambda: '"event": "worker started"' in process.said(), "a worker is started", 60)
        workers = process.children()
        os.kill(process.pid, signal.SIGTERM)
        assert await process.ended() == 1
        assert not [pid for pid in workers if is_alive(pid)]
        assert "Traceback" not in process.said()


@pytest.mark.parametrize("how", [ALONE, FIRST])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_in_the_middle_of_a_tools_imports_ends_it_as_an_interruption(
    how: str, number: signal.Signals, tmp_path: Path
):
    with started(how, ["watch"], tmp_path) as process:
        await wait_until(lambda: process.catches(signal.SIGTERM), "it looks after signals", every_seconds=0.001)
        os.kill(process.pid, number)
        assert await process.ended() == 130
        assert "Traceback" not in process.said()
