"""A private CUDA MPS daemon: kernels of several processes run on one GPU at the same time, not by time slices.

Its clients share a server process per GPU, so a fatal error of one, or a kill in the middle of a kernel, may end or
block all of them: workers under MPS are restarted together, with the daemon.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from consumer.errors import SettingsInvalid
from consumer.sections import Mps, WorkersSettings
from consumer.startup import Finding
from consumer.supervisor.gpus import VISIBLE_VARIABLE

CONTROL = "nvidia-cuda-mps-control"
_MISSING = f"there is no {CONTROL} on PATH"
_FIX = (
    "install it (it comes with the NVIDIA driver, and the container toolkit mounts it for the capability `utility`), "
    "or set workers.mps to off"
)
_START_SECONDS = 30.0
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


@asynccontextmanager
async def mps_daemon(folder: Path) -> AsyncIterator[Mapping[str, str]]:
    """Run one with its files in `folder` until the block ends; yields what its clients need in their environment.

    Raises SettingsInvalid when it does not start.
    """
    directories = {"CUDA_MPS_PIPE_DIRECTORY": folder / "mps-pipe", "CUDA_MPS_LOG_DIRECTORY": folder / "mps-log"}
    for directory in directories.values():
        directory.mkdir(exist_ok=True)
    variables = {name: str(directory) for name, directory in directories.items()}
    # A daemon that sees fewer GPUs numbers them anew, and its clients' numbers would mean other devices.
    environment = {name: value for name, value in os.environ.items() if name != VISIBLE_VARIABLE} | variables
    await asyncio.to_thread(_start, find_control(), environment, folder / "mps-start.log")
    log.info("MPS daemon started", **variables)
    quitting = subprocess.Popen(  # noqa: ASYNC220, S603 -- it returns at once; the command is a constant
        ["/bin/sh", "-c", _QUIT_WHEN_ALONE],
        env=environment,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield variables
    finally:
        assert quitting.stdin is not None
        quitting.stdin.close()
        try:
            await asyncio.to_thread(quitting.wait, _QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            quitting.kill()
            quitting.wait()
            log.error("the MPS daemon did not quit", within_seconds=_QUIT_SECONDS, logs=str(folder / "mps-log"))  # noqa: TRY400


def _start(command: str, environment: Mapping[str, str], log_file: Path) -> None:
    """It goes into the background by itself, and may keep its output open: so that is a file and no pipe."""
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
