"""A CUDA MPS daemon of one's own: kernels of several processes run on one GPU at the same time."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from producer_tools.console import ToolFailure

CONTROL = "nvidia-cuda-mps-control"


def mps_is_there() -> bool:
    """Whether this machine has the daemon."""
    return shutil.which(CONTROL) is not None


@asynccontextmanager
async def mps_daemon(folder: Path) -> AsyncIterator[dict[str, str]]:
    """Run the daemon until the block ends; the environment by which processes find it. Raises ToolFailure."""
    if not mps_is_there():
        raise ToolFailure(f"{CONTROL} is not installed on this machine: leave out MPS")
    pipes, logs = folder / "mps", folder / "mps-log"
    for one in (pipes, logs):
        one.mkdir(exist_ok=True)
    found_by = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(logs)}
    await _control(found_by, "-d")
    try:
        yield found_by
    finally:
        await _control(found_by, said=b"quit\n")


async def _control(found_by: dict[str, str], *arguments: str, said: bytes = b"") -> None:
    # A daemon that sees fewer GPUs numbers them anew, and its clients' numbers would mean other devices.
    everything = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    process = await asyncio.create_subprocess_exec(
        CONTROL,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=everything | found_by,
    )
    await process.communicate(said)
    if process.returncode:
        raise ToolFailure(f"{' '.join((CONTROL, *arguments))} ended with exit code {process.returncode}")
