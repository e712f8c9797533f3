"""What each worker is started with. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumer.logs import WORKER_VARIABLE
from consumer.sections import EngineKind, EngineSettings, Mps
from consumer.settings import Settings
from consumer.supervisor.gpus import visible_variables
from consumer.supervisor.link import COUNT_VARIABLE
from consumer.supervisor.mps import mps_variables
from consumer.supervisor.roster import StartRule

SHARED_GPU_MEMORY = 0.8
"""Of a GPU's memory, divided among its workers; the rest is for their CUDA contexts and what vLLM does not count."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker. `overrides`: its settings above those of all; `environment`: its variables above those of all."""

    index: int
    gpus: tuple[str, ...]
    unix_socket: Path
    overrides: Mapping[str, Any]
    environment: Mapping[str, str]


def plan_workers(settings: Settings, gpus: Sequence[tuple[str, ...]], folder: Path) -> list[WorkerPlan]:
    """One for each of `gpus`, the GPUs of each worker; their sockets, and the MPS daemon's, are in `folder`."""
    return [_plan(settings, index, gpus, folder / f"worker-{index}.sock") for index in range(len(gpus))]


def _plan(settings: Settings, index: int, gpus: Sequence[tuple[str, ...]], unix_socket: Path) -> WorkerPlan:
    overrides: dict[str, Any] = {
        "workers.count": 1,
        "workers.mps": Mps.OFF.value,
        "health.unix_socket": str(unix_socket),
    }
    if settings.kafka.group_instance_id is not None:
        overrides["kafka.group_instance_id"] = f"{settings.kafka.group_instance_id}-{index}"
    environment = {WORKER_VARIABLE: str(index), COUNT_VARIABLE: str(len(gpus))}
    if settings.workers.mps is Mps.ON:
        environment |= mps_variables(unix_socket.parent)
    if gpus[index]:
        environment |= visible_variables(gpus[index])
        if (share := gpu_memory_share(settings.engine, gpus)) is not None:
            overrides["engine.args.gpu_memory_utilization"] = share
    return WorkerPlan(index, gpus[index], unix_socket, overrides, environment)


def gpu_memory_share(engine: EngineSettings, gpus: Sequence[tuple[str, ...]]) -> float | None:
    """`gpu_memory_utilization` of each worker, where it is not set and workers share a GPU; else None.

    Also beside a fixed `kv_cache_memory_bytes`: vLLM asks for that share to be free all the same (request_memory in its
    v1/worker/utils.py).
    """
    sharing = max((gpus.count(some) for some in gpus if some), default=0)
    if sharing <= 1 or engine.kind is EngineKind.SCRIPTED or "gpu_memory_utilization" in engine.args:
        return None
    return round(SHARED_GPU_MEMORY / sharing, 3)


def gpus_per_worker(engine: EngineSettings) -> int:
    """How many GPUs one engine spreads over."""
    sizes = (engine.args.get("tensor_parallel_size", 1), engine.args.get("pipeline_parallel_size", 1))
    return int(sizes[0]) * int(sizes[1])


def start_rule(engine: EngineSettings) -> StartRule:
    """How the engines may start."""
    if engine.kind is EngineKind.SCRIPTED:
        return StartRule.TOGETHER
    return StartRule.AFTER_THE_FIRST if "kv_cache_memory_bytes" in engine.args else StartRule.ONE_BY_ONE


def as_arguments(overrides: Mapping[str, Any]) -> list[str]:
    """`--set` for each, to be read back as the same values."""
    arguments = []
    for path, value in overrides.items():
        text = value if isinstance(value, str) and not path.startswith("engine.args.") else json.dumps(value)
        arguments += ["--set", f"{path}={text}"]
    return arguments
