"""Find and load vLLM's IO processors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from inspect import isabstract
from typing import Any

from consumer.adapters.vllm_engine import VllmEngine
from consumer.adapters.vllm_processor import VllmProcessor
from consumer.adapters.vllm_versions import IOProcessor, resolve_obj_by_qualname
from consumer.errors import SettingsInvalid
from consumer.hooks import Hooks
from consumer.io_processors import chosen_io_processors
from consumer.sections import EngineSettings, LimitSettings

ProcessorClass = Callable[..., IOProcessor[Any, Any]]


def processor_classes(settings: EngineSettings) -> dict[str, ProcessorClass]:
    """The classes behind `engine.io_processors`, by name. Blocking: imports them.

    Without those whose entry point says that they are not for this machine, unless they were asked for by name. Raises
    SettingsInvalid, with the fix, for what does not load.
    """
    classes = {name: _class_of(name, point) for name, point in chosen_io_processors(settings).items()}
    for name in settings.io_processors or ():
        if classes[name] is None:
            raise _refuse(name, "says that it is not for this machine")
    return {name: found for name, found in classes.items() if found is not None}


async def load_processors(
    settings: EngineSettings, limits: LimitSettings, engine: VllmEngine
) -> Mapping[str, VllmProcessor]:
    """The processors, made for the engine's model. Raises SettingsInvalid as `processor_classes`.

    They outlive an engine that is restarted in place, because its successor has the same configuration, and requests
    that were inside are answered by the processor that prepared them.
    """
    processors = {}
    for name, make in (await asyncio.to_thread(processor_classes, settings)).items():
        try:
            plugin = await asyncio.to_thread(make, engine.config, engine.renderer)
        except Exception as broken:
            raise _refuse(name, f"cannot be made: {type(broken).__name__}: {broken}") from broken
        hooks = Hooks(settings.io_processor_timeout_seconds)
        usable_tokens = engine.card.usable_tokens
        processors[name] = VllmProcessor(plugin, engine.renderer, hooks, usable_tokens, limits.max_items)
    return processors


def _class_of(name: str, point: EntryPoint) -> ProcessorClass | None:
    try:
        qualified_name = point.load()()
        found = None if qualified_name is None else resolve_obj_by_qualname(qualified_name)
    except Exception as broken:
        raise _refuse(name, f"does not load: {type(broken).__name__}: {broken}") from broken
    if found is None:
        return None
    if not isinstance(found, type) or isabstract(found):
        raise _refuse(name, "is not a class with pre_process and post_process")
    if getattr(found, "parse_data", None) is IOProcessor.parse_data and not hasattr(found, "parse_request"):
        raise _refuse(name, "has no parse_data")
    return found


def _refuse(name: str, problem: str) -> SettingsInvalid:
    return SettingsInvalid(
        f"engine.io_processors: {name} {problem}: mend or uninstall its package, or name the others that you want"
    )
