"""Inside the engine's processes: which parameters did loading leave as they were?

vLLM allocates a model's parameters and fills those that it finds in the weight files. Whether it found all of them it
does not ask of the linear layers of models that are not quantised, nor of models whose loader does not say what it
loaded. So before loading every such parameter is made NaN, and what is NaN afterwards was not loaded, be it a part of
one that is made of several. The parameters of quantised layers are left alone: some mean something before loading.

vLLM calls the entry points of `vllm.general_plugins` in every process that it starts; this is one (pyproject.toml). The
worker asks for what was found by its `collective_rpc` (VllmEngine.weights_left_unset).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

_CHUNK_NUMBERS = 1 << 24
"""Looked at together: what that takes of the device's memory, for a moment, in bytes."""
_LOADED_BEFORE = "projector"
"""Dense modules behind a pooling, which vLLM loads when it builds the model."""
_found: list[list[str]] = []
"""Of the first model that this process has loaded, if it has."""


def watch_loading() -> None:
    """Called by vLLM in each of its processes; does nothing in the worker itself."""
    if multiprocessing.parent_process() is None:
        return
    try:
        from vllm.model_executor.model_loader.default_loader import DefaultModelLoader  # noqa: PLC0415 -- heavy
        from vllm.v1.worker.worker_base import WorkerBase  # noqa: PLC0415 -- heavy
    except ImportError:
        return  # A release that has moved them: the worker's question is not answered, and it says so in its log.
    if hasattr(WorkerBase, "weights_left_unset"):
        return
    load = DefaultModelLoader.load_weights

    def load_and_look(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        if _found:
            return load(self, model, *args, **kwargs)
        watched = make_nan(model)
        returned = load(self, model, *args, **kwargs)
        _found.append([name for name in watched if has_nan(dict(model.named_parameters()).get(name))])
        return returned

    DefaultModelLoader.load_weights = load_and_look
    WorkerBase.weights_left_unset = _weights_left_unset


def _weights_left_unset(_worker: Any) -> list[str] | None:
    return _found[0] if _found else None


def make_nan(model: Any) -> list[str]:
    """Every parameter of a torch module that has to come from the weight files; returns their names."""
    import torch  # noqa: PLC0415 -- heavy

    names = []
    for name, parameter in _from_files(model):
        with torch.no_grad():
            parameter.fill_(float("nan"))
        names.append(name)
    return names


def has_nan(parameter: Any) -> bool:
    """False for None, a parameter that loading has taken away."""
    if parameter is None:
        return False
    return any(bool(part.isnan().any()) for part in parameter.detach().reshape(-1).split(_CHUNK_NUMBERS))


def _from_files(model: Any) -> Iterator[tuple[str, Any]]:
    for path, module in model.named_modules():
        if _LOADED_BEFORE in path.split("."):
            continue
        method = getattr(module, "quant_method", None)
        if method is not None and not type(method).__name__.startswith("Unquantized"):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_floating_point() and not parameter.is_meta:
                yield f"{path}.{name}" if path else name, parameter
