"""A private CUDA MPS daemon: kernels of several processes run on one GPU at the same time, not by time slices.

It lives as long as the supervisor. A worker that dies leaves the others alone. A fault on the GPU does not: MPS reports
it to every process on that GPU, so each engine dies, and each worker is restarted by itself. A daemon that ends unasked
ends the supervisor, because no engine that starts later could share the GPU.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import structlog

from consumer.errors import SettingsInvalid
from consumer.sections import Mps, WorkersSettings
from consumer.startup import Finding
from consumer.supervisor.gpus import VISIBLE_VARIABLE
from consumer.supervisor.process import process_end

CONTROL = "nvidia-cuda-mps-control"
PID_FILE = f"{CONTROL}.pid"
"""The daemon's process id; it writes this file into its CUDA_MPS_PIPE_DIRECTORY."""
DAEMON_ENDED = "the CUDA MPS daemon ended unasked: everything has to start anew"
_MISSING = f"there is no {CONTROL} on PATH"
_FIX = (
    "install it (it comes with the NVIDIA driver, and the container toolkit mounts it for the capability `utility`), "
    "or set workers.mps to off"
)
_START_SECONDS, _PID_SECONDS, _LOOK_SECONDS = 30.0, 5.0, 0.02
_QUIT_SECONDS = 30.0
_QUIT_WHEN_ALONE = f"read -r _; echo quit | exec {CONTROL}"
"""Reads to the end of a pipe that only the supervisor holds open: the daemon goes when the supervisor does, however."""

log = structlog.get_logger()


def find_control() -> str:
    """The daemon's command. Raises SettingsInvalid where it is not installed."""
    command = shutil.which(CONTROL)
    if command is None:
        raise SettingsInvalid(f"workers.mps is on, and {_MISSING}: {_FIX}")
    return command


def check_mps(workers: WorkersSettings) -> list[Finding]:
    """Whether the daemon that the settings ask for can be started; nothing when they ask for none."""
    if workers.mps is Mps.OFF:
        return []
    if command := shutil.which(CONTROL):
        return [Finding("workers.mps", ok=True, found=command)]
    return [Finding("workers.mps", ok=False, found=_MISSING, fix=_FIX)]


def mps_variables(folder: Path) -> dict[str, str]:
    """By which the clients of the daemon in `folder` find it."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "mps-pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "mps-log")}


@asynccontextmanager
async def mps_daemon(folder: Path) -> AsyncIterator[asyncio.Future[None]]:
    """Run one with its files in `folder` until the block ends; yields what is done when it has ended.

    Raises SettingsInvalid when it does not start.
    """
    variables = mps_variables(folder)
    # A daemon that sees fewer GPUs numbers them anew, and its clients' numbers would mean other devices.
    environment = {name: value for name, value in os.environ.items() if name != VISIBLE_VARIABLE} | variables
    await asyncio.to_thread(_start, find_control(), folder, environment)
    async with _quitting(environment):
        file = Path(variables["CUDA_MPS_PIPE_DIRECTORY"], PID_FILE)
        pid = await asyncio.to_thread(_pid, file)
        log.info("MPS daemon started", pid=pid, **variables)
        if pid is None:
            log.warning("nobody would notice the end of the MPS daemon: it wrote no process id", file=str(file))
        ended = asyncio.create_task(_end_of(pid))
        try:
            yield ended
        finally:
            ended.cancel()


@asynccontextmanager
async def _quitting(environment: Mapping[str, str]) -> AsyncIterator[None]:
    """The daemon quits when the block ends, or this process does."""
    quitting = subprocess.Popen(  # noqa: ASYNC220, S603 -- it returns at once; the command is a constant
        ["/bin/sh", "-c", _QUIT_WHEN_ALONE],
        env=environment,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert quitting.stdin is not None
        quitting.stdin.close()
        try:
            await asyncio.to_thread(quitting.wait, _QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            quitting.kill()
            quitting.wait()
            log.error("the MPS daemon did not quit", within_seconds=_QUIT_SECONDS)  # noqa: TRY400


async def _end_of(pid: int | None) -> None:
    """Never where there is no pid to watch: the workers are worth more than the watch."""
    if pid is None:
        await asyncio.get_running_loop().create_future()
        return
    with suppress(ProcessLookupError):
        await process_end(pid)


def _start(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    """With -d it goes into the background once it listens; with -f nothing would tell that it does.

    It may keep its output open: so that is a file and no pipe.
    """
    for directory in mps_variables(folder).values():
        Path(directory).mkdir(exist_ok=True)
    log_file = folder / "mps-start.log"
    try:
        with log_file.open("wb") as output:
            started = subprocess.run(  # noqa: S603 -- found on PATH
                [command, "-d"],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                timeout=_START_SECONDS,
            )
    except subprocess.TimeoutExpired:
        raise SettingsInvalid(f"{CONTROL} -d did not return within {_START_SECONDS:g} s") from None
    if started.returncode != 0:
        said = log_file.read_text(errors="replace").strip()
        raise SettingsInvalid(f"{CONTROL} -d failed with exit code {started.returncode}: {said}")


def _pid(file: Path) -> int | None:
    """Of the daemon that has started; None where it does not tell."""
    deadline = time.monotonic() + _PID_SECONDS
    while not (file.exists() and (written := file.read_text().strip()).isdecimal()):
        if time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_SECONDS)
    return int(written)
