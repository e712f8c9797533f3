"""From settings to a running supervisor and its exit code. Light: neither torch nor vLLM is imported here."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import structlog

from consumer import logs
from consumer.clock import SystemClock
from consumer.errors import SettingsInvalid
from consumer.sections import Mps
from consumer.settings import Settings
from consumer.supervisor.gpus import gpus_of_workers, visible_gpus
from consumer.supervisor.mps import find_control
from consumer.supervisor.plan import as_arguments, gpu_memory_share, gpus_per_worker, plan_workers, start_rule
from consumer.supervisor.process import inherit_orphans
from consumer.supervisor.restarts import SETTINGS_EXIT_CODE
from consumer.supervisor.roster import StartRule
from consumer.supervisor.supervisor import Supervisor

log = structlog.get_logger()


def main(settings: Settings, overrides: Mapping[str, Any]) -> int:
    """Run `workers.count` workers, each with `overrides` (settings from the command line); returns the exit code."""
    logs.configure()
    inherit_orphans()
    try:
        with _temporary_folder() as folder:
            return asyncio.run(_supervisor(settings, overrides, Path(folder)).run())
    except SettingsInvalid as invalid:
        log.error("refused to start", reason=str(invalid))  # noqa: TRY400 -- the message says it all
        return SETTINGS_EXIT_CODE


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """For sockets. Raises SettingsInvalid."""
    try:
        return tempfile.TemporaryDirectory(prefix="scorestream-")
    except OSError as refused:
        raise SettingsInvalid(f"{refused}: mount a writable folder at /tmp, or set TMPDIR to one") from refused


def _supervisor(settings: Settings, overrides: Mapping[str, Any], folder: Path) -> Supervisor:
    """Raises SettingsInvalid when the machine is not what the settings need."""
    if settings.workers.mps is Mps.ON:
        find_control()
    gpus = gpus_of_workers(settings.workers.count, visible_gpus(os.environ), gpus_per_worker(settings.engine))
    _tell(settings, gpus)
    command = [*_this_program(), "run", *as_arguments(overrides)]
    return Supervisor(settings, plan_workers(settings, gpus, folder), command, folder, SystemClock())


def _this_program() -> list[str]:
    """As this process was started, without its arguments: so the workers import what this one did."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]]


def _tell(settings: Settings, gpus: Sequence[tuple[str, ...]]) -> None:
    """What follows from the settings and the machine, and what would change it."""
    log.info(
        "supervising",
        version=version("scorestream"),
        workers=settings.workers.count,
        gpus=[",".join(some) for some in gpus if some],
        mps=settings.workers.mps.value,
    )
    if start_rule(settings.engine) is StartRule.ONE_BY_ONE:
        log.warning(
            "engines start one after the other, because vLLM measures the free memory of its GPU: set "
            "engine.args.kv_cache_memory_bytes, and all but the first start together",
        )
    if (share := gpu_memory_share(settings.engine, gpus)) is not None:
        log.info("workers share GPUs: engine.args.gpu_memory_utilization is set for each", gpu_memory_utilization=share)
