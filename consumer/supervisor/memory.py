"""Whether the memory of the GPUs is enough for the workers that share them. Pure: the readings are passed in."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.metrics.sampler import GpuReading
from consumer.settings import Settings
from consumer.startup import Finding
from consumer.supervisor.gpus import gpus_of_workers
from consumer.supervisor.plan import gpu_memory_share, gpus_per_worker

_GIB = 2**30


def check_gpu_memory(
    settings: Settings, gpus: Sequence[GpuReading], default_share: float, holder: str | None = None
) -> list[Finding]:
    """One finding for each GPU that workers are given. `default_share`: vLLM's own gpu_memory_utilization.

    vLLM takes its share of all memory, and refuses to start where so much is not free. `holder`: what runs here already
    and holds its share, so that less is free. Raises SettingsInvalid when an engine asks for more GPUs than there are.
    """
    engine = settings.engine
    places = gpus_of_workers(settings.workers.count, [one.name for one in gpus], gpus_per_worker(engine))
    given = engine.args.get("gpu_memory_utilization", gpu_memory_share(engine, places))
    share = default_share if given is None else float(given)
    counts = {one.name: sum(one.name in place for place in places) for one in gpus}
    return [_check(one, counts[one.name], share, holder) for one in gpus if counts[one.name]]


def _check(gpu: GpuReading, workers: int, share: float, holder: str | None) -> Finding:
    free_bytes = gpu.total_bytes - gpu.used_bytes
    wanted_bytes = workers * share * gpu.total_bytes
    each = f"{workers} worker{'s' if workers > 1 else ''} with gpu_memory_utilization {share:g}"
    found = (
        f"GPU {gpu.name} has {gpu.total_bytes / _GIB:.1f} GiB, {free_bytes / _GIB:.1f} free; {each} "
        f"take {wanted_bytes / _GIB:.1f}"
    )
    if wanted_bytes <= free_bytes:
        return Finding("engine.gpu_memory", ok=True, found=found)
    if holder is not None:
        return Finding("engine.gpu_memory", ok=True, found=f"{found}; {holder} holds its share already")
    fits = int(100 * free_bytes / gpu.total_bytes / workers) / 100
    fix = f"end what else uses it (nvidia-smi lists it), or set engine.args.gpu_memory_utilization to at most {fits:g}"
    if workers > 1:
        fix += ", or workers.count to fewer"
    return Finding("engine.gpu_memory", ok=False, found=found, fix=fix)
