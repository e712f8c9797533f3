"""sentence-transformers' Dense modules: layers behind the encoder that the engine applies, in float32.

vLLM reads them itself, and where it cannot it goes on without. So everything that it would stumble over is refused
here, and the adapter asks it which ones it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer.model.candidate import Candidate
from consumer.model.sentence_files import check_names

_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid", "SiLU")
_FILE = "model.safetensors"
_TENSORS = ("linear.weight", "linear.bias")
_IGNORED = ("in_features", "out_features", "bias", "activation_function", "module_input_name", "module_output_name")


def module_kind(module: Mapping[str, Any]) -> str:
    """The class of one of modules.json's modules; which package it is in has changed between releases."""
    return str(module.get("type", "")).rsplit(".", 1)[-1]


def projected_size(candidate: Candidate, modules: Sequence[Mapping[str, Any]], feature: str) -> int:
    """How many numbers a vector has behind these modules, each of which takes and gives the vectors called `feature`.

    Raises SettingsInvalid for one that is not computed as its authors meant it.
    """
    size = candidate.positive("hidden_size")
    if modules and "head_dtype" in candidate.config:
        raise candidate.files.refuse("leave out engine.args.hf_overrides.head_dtype: its Dense module is of float32")
    for module in modules:
        size = _after(candidate, module, size, feature)
    return size


def _after(candidate: Candidate, module: Mapping[str, Any], size: int, feature: str) -> int:
    files, path = candidate.files, str(module.get("path", ""))
    name = f"{path}/config.json"
    config = files.json(name)
    shapes = files.tensor_shapes(path)
    inputs, outputs = config.get("in_features"), config.get("out_features")
    if inputs != size or type(outputs) is not int or shapes.get("linear.weight") != (outputs, inputs):
        raise files.refuse(
            f"{name} says {inputs} -> {outputs} numbers, {size} come in, and its weights are "
            f"{shapes.get('linear.weight')}"
        )
    # Left out, it is Tanh for sentence-transformers and nothing for vLLM.
    activation = str(config.get("activation_function", "")).rsplit(".", 1)[-1]
    if activation not in _ACTIVATIONS:
        raise files.refuse(f"{name} has the activation {activation!r}; one of {', '.join(_ACTIVATIONS)} is supported")
    if unknown := sorted(key for key, value in config.items() if key not in _IGNORED and value):
        raise files.refuse(f"{name} asks for {unknown[0]}, which vLLM does not compute")
    if not (files.folder / path / _FILE).is_file() or shapes.keys() - set(_TENSORS):
        raise files.refuse(
            f"{path} holds {', '.join(sorted(shapes))}: save it with {' and '.join(_TENSORS)} in {_FILE} alone, which "
            "is what vLLM reads"
        )
    if bool(config.get("bias", True)) != ("linear.bias" in shapes):
        raise files.refuse(f"{name} and its weights do not agree on a bias")
    if not str(module.get("type")).startswith("pylate."):  # whose Dense takes tokens' vectors whatever it says
        check_names(files, name, config, feature)
    return outputs
