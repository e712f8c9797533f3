"""What is looked at on this machine: files that settings name, and names in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from consumer.finding import Finding
from consumer.logs import WORKER_VARIABLE
from consumer.settings import Settings
from consumer.supervisor.link import COUNT_VARIABLE, SOCKET_VARIABLE
from producer_tools.connections.environment import unread
from producer_tools.connections.settings_file import CONFIG_VARIABLE

_NO_SETTINGS = (CONFIG_VARIABLE, WORKER_VARIABLE, COUNT_VARIABLE, SOCKET_VARIABLE)
"""Names of ours in the environment that mean something else."""


def check_environment(environment: Mapping[str, str]) -> list[Finding]:
    """Warnings of names that begin as those of settings do, and are none."""
    return [
        Finding(setting, ok=True, found=found, fix=fix)
        for setting, found, fix, _ in unread(environment, Settings, _NO_SETTINGS)
    ]


def check_files(settings: Settings) -> list[Finding]:
    """Those that are named and cannot be read here. Blocking."""
    return [
        Finding(name, ok=False, found=f"{path}: {problem}", fix="mount the file, or set its name right")
        for section in ("kafka", "redis")
        for name, path in _files(getattr(settings, section).security, f"{section}.security")
        if (problem := _unreadable(path))
    ]


def _files(section: BaseModel, prefix: str) -> list[tuple[str, Path]]:
    return [(f"{prefix}.{name}", value) for name, value in section if isinstance(value, Path)]


def _unreadable(path: Path) -> str:
    """Why; empty for a file that can be read."""
    try:
        if path.is_dir():
            return "it is a folder"
        with path.open("rb"):
            return ""
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
