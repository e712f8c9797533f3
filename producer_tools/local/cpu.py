"""Processor time of a process and of those it started, by what they are for, from /proc (Linux)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from producer_tools.console import ToolFailure

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Role(StrEnum):
    """What a process of a deployment, or a thread of it, is for.

    A worker's event loop is its main thread and part of WORKER.
    """

    SUPERVISOR = "supervisor"
    WORKER = "worker"
    EVENT_LOOP = "event_loop"
    ENGINE = "engine"


CpuSeconds = Mapping[Role, float]
"""Processor time by role, user and system together, all processes of that role."""


class _Process(NamedTuple):
    parent: int
    seconds: float


def cpu_seconds(pid: int) -> dict[Role, float]:
    """What `pid` and its living descendants have used so far. Raises ToolFailure when there is no such process.

    Of those, engines are what vLLM and multiprocessing started; a supervisor is what started workers.
    """
    processes = {int(folder.name): one for folder in Path("/proc").glob("[0-9]*") if (one := _process(folder))}
    if pid not in processes:
        raise ToolFailure(f"there is no process {pid} on this machine")
    family = {pid}
    # A parent may have a higher number than its child, so one pass does not do.
    while new := {one for one, process in processes.items() if process.parent in family} - family:
        family |= new
    engines = {member for member in family if member != pid and _is_engines(member)}
    parents = {processes[member].parent for member in family - engines if member != pid}
    used = dict.fromkeys(Role, 0.0)
    for member in family:
        seconds = processes[member].seconds
        if member in engines:
            used[Role.ENGINE] += seconds
        elif member in parents:
            used[Role.SUPERVISOR] += seconds
        else:
            used[Role.WORKER] += seconds
            used[Role.EVENT_LOOP] += _main_thread_seconds(member)
    return used


def difference(after: CpuSeconds, before: CpuSeconds) -> dict[Role, float]:
    """Processor time used between two looks."""
    return {role: max(0.0, after[role] - before[role]) for role in Role}


def _is_engines(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True  # It ended while we looked; workers do not.
    return command.startswith(b"VLLM::") or b"multiprocessing" in command


def _main_thread_seconds(pid: int) -> float:
    process = _process(Path(f"/proc/{pid}/task/{pid}"))
    return process.seconds if process else 0.0


def _process(folder: Path) -> _Process | None:
    try:
        text = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None  # It ended while we looked.
    # The name in parentheses may hold anything; proc(5) numbers the fields from 1, state is the third.
    fields = text.rpartition(")")[2].split()
    return _Process(parent=int(fields[1]), seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND)
