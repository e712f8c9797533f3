"""vLLM's IO processors: which are installed, and which of them this worker offers. Imports neither vLLM nor them.

They are entry points of the group `vllm.io_processor_plugins`; each is a function that returns the name of a class.
"""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points

from consumer.errors import SettingsInvalid
from consumer.sections import EngineKind, EngineSettings

GROUP = "vllm.io_processor_plugins"


def chosen_io_processors(engine: EngineSettings) -> dict[str, EntryPoint]:
    """By name: all that are installed, or those that `engine.io_processors` names. None for the scripted engine.

    vLLM's own allow-list, VLLM_PLUGINS, is kept. Raises SettingsInvalid for a name that is not there.
    """
    if engine.kind is not EngineKind.VLLM:
        return {}
    installed = {point.name: point for point in entry_points(group=GROUP)}
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None:
        installed = {name: point for name, point in installed.items() if name in allowed.split(",")}
    if engine.io_processors is None:
        return dict(sorted(installed.items()))
    for name in engine.io_processors:
        if name not in installed:
            there = ", ".join(sorted(installed)) or "none"
            raise SettingsInvalid(
                f"engine.io_processors names {name}: install the package that has it as an entry point of {GROUP}, "
                f"or take it out; there is {there}"
            )
    return {name: installed[name] for name in engine.io_processors}


def distribution_of(point: EntryPoint) -> str:
    """Name and version of the package that an entry point is from."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "of no package"
