"""Processor time of a process and of those it started, from /proc (Linux)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from producer_tools.console import ToolFailure

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class CpuSeconds(NamedTuple):
    """Processor time used since the start, user and system together, all threads."""

    main: float
    children: float


class _Stat(NamedTuple):
    parent: int
    seconds: float


def cpu_seconds(pid: int) -> CpuSeconds:
    """What `pid` and its living descendants have used so far. Raises ToolFailure when there is no such process."""
    stats = {int(folder.name): stat for folder in Path("/proc").glob("[0-9]*") if (stat := _stat(folder)) is not None}
    if pid not in stats:
        raise ToolFailure(f"there is no process {pid} on this machine")
    family, children = {pid}, 0.0
    # A parent may have a higher number than its child, so one pass does not do.
    while new := {one for one, stat in stats.items() if stat.parent in family} - family:
        family |= new
        children += sum(stats[one].seconds for one in new)
    return CpuSeconds(stats[pid].seconds, children)


def _stat(folder: Path) -> _Stat | None:
    try:
        text = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None  # It ended while we looked.
    # The name in parentheses may hold anything; proc(5) numbers the fields from 1, state is the third.
    fields = text.rpartition(")")[2].split()
    return _Stat(parent=int(fields[1]), seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND)
