"""Use and memory of the GPUs, where `nvidia-smi` answers."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile

from producer_tools.console import ToolFailure

INTERVAL_MS = 200
_FIELDS = "index,name,utilization.gpu,memory.used"


@dataclass(slots=True)
class GpuUse:
    """What was seen of one GPU. `busy_percent`: the share of time in which it computed anything at all."""

    name: str
    busy_percent: list[float] = field(default_factory=list)
    max_memory_mib: float = 0.0


GpusSeen = dict[str, GpuUse]
"""By the GPU's index."""


def count_visible(listed: int) -> int:
    """How many GPUs a worker sees: those that CUDA_VISIBLE_DEVICES names, else as many as the driver lists."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is None:
        return listed
    # CUDA takes what stands before the first that is no device.
    named = takewhile(lambda one: one not in ("", "-1", "NoDevFiles"), map(str.strip, visible.split(",")))
    return len(list(named))


@asynccontextmanager
async def watching_gpus() -> AsyncIterator[GpusSeen]:
    """Look at all GPUs until the block ends; what was seen, nothing where there is no nvidia-smi."""
    seen: GpusSeen = {}
    if shutil.which("nvidia-smi") is None:
        yield seen
        return
    looking = await asyncio.create_subprocess_exec(
        "nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", f"--loop-ms={INTERVAL_MS}",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    reading = asyncio.ensure_future(_read(looking, seen))
    try:
        yield seen
    finally:
        with suppress(ProcessLookupError):
            looking.kill()
        await asyncio.wait({reading})
        await looking.wait()
    reading.result()


async def _read(looking: asyncio.subprocess.Process, seen: GpusSeen) -> None:
    if looking.stdout is None:
        raise ToolFailure("nvidia-smi has no output: this is a bug")
    async for line in looking.stdout:
        parts = [part.strip() for part in line.decode().split(",")]
        if len(parts) != len(_FIELDS.split(",")):
            continue  # What it says where there is no driver.
        index, name, busy, memory = parts
        one = seen.setdefault(index, GpuUse(name))
        # "[N/A]" inside a slice of a GPU, which has no counter of its own.
        if busy.isdigit():
            one.busy_percent.append(float(busy))
        if memory.isdigit():
            one.max_memory_mib = max(one.max_memory_mib, float(memory))
