"""The settings that are given, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

DEFAULT_LANE_RECORDS, DEFAULT_STEPS_IN_FLIGHT = 4096, 4
"""The worker's own, of limits.lane_records and engine.steps_in_flight."""


def leaves(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Each setting under its own path, also those of an object that was given whole; values as the worker reads them.

    An argument of the engine is whole: `engine.args.compilation_config` is one setting.
    """
    return {leaf: value for path, given in settings.items() for leaf, value in _leaves(path, _value(path, given))}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and not path.startswith("engine.args."):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    elif path != "engine.args" or value is not None:
        yield path, value


def _value(path: str, given: Any) -> Any:
    """JSON in engine.args and where it is a list or an object, else text."""
    if not isinstance(given, str) or not (path.startswith("engine.args") or given[:1] in ("{", "[")):
        return given
    try:
        return json.loads(given)
    except json.JSONDecodeError:
        return given


def gpus_per_engine(given: Mapping[str, Any]) -> int:
    """How many GPUs one engine spreads over."""
    sizes = (given.get(f"engine.args.{kind}_parallel_size", 1) for kind in ("tensor", "pipeline"))
    tensor, pipeline = map(int, sizes)
    return tensor * pipeline


def with_lanes_for_the_window(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With limits.lane_records where max_num_seqs needs more than the default and none are given.

    A lane has to hold twice the engine's window; the worker refuses less.
    """
    window = int(settings.get("engine.max_num_seqs", 0)) * int(
        settings.get("engine.steps_in_flight", DEFAULT_STEPS_IN_FLIGHT)
    )
    return ({"limits.lane_records": 2 * window} if 2 * window > DEFAULT_LANE_RECORDS else {}) | dict(settings)
