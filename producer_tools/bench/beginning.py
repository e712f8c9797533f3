"""The report that a run begins with: an empty one, or one that was broken off."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from producer_tools.bench.files import REPORT
from producer_tools.bench.report import Report
from producer_tools.bench.suite import Suite
from producer_tools.console import ToolFailure

_FREE_TO_CHANGE = ("minutes", "targets")
"""What says nothing about how a figure was measured."""


def machine() -> dict[str, Any]:
    """What this machine is, as far as rates depend on it."""
    gpus = []
    if shutil.which("nvidia-smi"):
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)  # noqa: S607
        gpus = [line.partition(" (")[0] for line in listed.stdout.splitlines() if line.startswith("GPU")]
    return {"cpus": len(os.sched_getaffinity(0)), "gpus": gpus, "python": platform.python_version()}


def empty_report(suite: Suite) -> Report:
    """A report without measurements."""
    return Report(
        scorestream=version("scorestream"),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        suite=suite.model_dump(mode="json"),
        asked=suite.targets,
    )


def resumed_report(suite: Suite, folder: Path) -> Report:
    """That in `folder`, without what it skipped; an empty one where there is none.

    Raises ToolFailure when it is no report, or one whose figures cannot stand beside those that would be added.
    """
    fresh = empty_report(suite)
    file = folder / REPORT
    if not file.exists():
        return fresh
    try:
        found = Report.model_validate_json(file.read_bytes())
    except ValidationError as invalid:
        raise ToolFailure(
            f"{file} is no report of this version: {invalid.errors(include_url=False)[0]['msg']}"
        ) from None
    for what, before, now in (
        ("scorestream", found.scorestream, fresh.scorestream),
        ("machine", found.machine, fresh.machine),
        ("suite", _measured_by(found.suite), _measured_by(fresh.suite)),
    ):
        if before != now:
            raise ToolFailure(
                f"{file} is of another {what}, and its figures cannot be compared: give another --out, or leave out "
                f"--resume. It has {before}, this is {now}"
            )
    return fresh.model_copy(update={"started_at": found.started_at, "measurements": found.measurements})


def _measured_by(suite: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in suite.items() if name not in _FREE_TO_CHANGE}
