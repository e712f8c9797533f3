"""Which GPUs there are, without CUDA, and who gets which."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from consumer.errors import SettingsInvalid

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER_VARIABLE = "CUDA_DEVICE_ORDER"
_LIST_SECONDS = 30.0


def visible_gpus(environment: Mapping[str, str]) -> tuple[str, ...]:
    """As CUDA_VISIBLE_DEVICES names them; where it is not set, the numbers of all that `nvidia-smi -L` lists.

    Numbers and not UUIDs, which not every release of vLLM can read. None on a machine without a GPU. Blocking.
    Raises SettingsInvalid when the driver does not answer.
    """
    if (visible := environment.get(VISIBLE_VARIABLE)) is not None:
        named = [one.strip() for one in visible.split(",")]
        # CUDA takes what stands before the first number that is no device's.
        known = next((at for at, one in enumerate(named) if one in ("", "-1", "NoDevFiles")), len(named))
        return tuple(named[:known])
    command = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if command is None:
        return ()
    try:
        listed = subprocess.run(  # noqa: S603 -- found on PATH
            [command, "-L"], capture_output=True, text=True, check=False, timeout=_LIST_SECONDS, env=dict(environment)
        )
    except subprocess.TimeoutExpired:
        raise SettingsInvalid(f"nvidia-smi -L did not answer in {_LIST_SECONDS:g} s: set {VISIBLE_VARIABLE}") from None
    # On a machine with the driver's tools and without a GPU it fails, and lists none.
    return tuple(re.findall(r"^GPU (\d+):", listed.stdout, re.MULTILINE))


def gpus_of_workers(count: int, gpus: Sequence[str], gpus_per_worker: int) -> list[tuple[str, ...]]:
    """For each worker, round robin; nothing for each where there is no GPU. Raises SettingsInvalid."""
    if not gpus:
        return [()] * count
    if len(gpus) < gpus_per_worker:
        raise SettingsInvalid(
            f"engine.args: one engine asks for {gpus_per_worker} GPUs, and there are {len(gpus)} ({', '.join(gpus)}): "
            "set tensor_parallel_size and pipeline_parallel_size to what there is"
        )
    groups = [tuple(gpus[at : at + gpus_per_worker]) for at in range(0, len(gpus), gpus_per_worker)]
    whole = [group for group in groups if len(group) == gpus_per_worker]
    return [whole[index % len(whole)] for index in range(count)]


def visible_variables(gpus: Sequence[str]) -> dict[str, str]:
    """What a process that is to see only these GPUs has in its environment; nothing where there are none."""
    # CUDA would order by speed, nvidia-smi and vLLM order by bus: a number is to mean one device.
    return {VISIBLE_VARIABLE: ",".join(gpus), ORDER_VARIABLE: "PCI_BUS_ID"} if gpus else {}
