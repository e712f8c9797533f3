"""Is every weight there that the model computes with? vLLM does not ask: it scores with unset memory in its place.

What there should be is transformers' to say: its class of the model is built without memory, and its parameters are
held against the names and shapes in the files. What is in the files and not computed with (heads of a pre-training, an
embedder's pooler) may be there or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consumer.errors import SettingsInvalid
from consumer.model.card import ModelCard, ModelKind
from consumer.model.files import ModelFiles
from consumer.model.weight_files import Shape
from consumer.sections import EngineSettings

_NO_WEIGHTS = "dummy"
"""vLLM fills the model with random numbers then."""

_CLASSES = {"HF_ColBERT": "BertModel"}
"""Architecture -> transformers' class of the encoder, where it has another name."""
_VECTORS = (ModelKind.EMBEDDING, ModelKind.LATE_INTERACTION)
"""What is computed is the encoder's last states, whatever head the class has."""
_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "BertModel": ("",),
    "HF_ColBERT": ("bert.",),
    "RobertaModel": ("", "roberta."),
    "XLMRobertaModel": ("", "roberta."),
    "ModernBertModel": ("", "model."),
}
"""Architecture -> what vLLM 0.32.0 lets the names of its encoder begin with; all of them with the same."""
_DECODER_PREFIXES = ("model.", "")
_PACKED = ("qweight", "weight_packed")
"""In the place of `weight`, as GPTQ and AWQ, and compressed-tensors, name a quantised one."""
_NAMED = 3
"""Tensors that a message names."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Parameters, by transformers' names. `encoder`: without what its names begin with, one of `prefixes`."""

    encoder: dict[str, Shape]
    head: dict[str, Shape]
    prefixes: tuple[str, ...]
    quantised: bool

    def problem(self, found: Mapping[str, Shape]) -> str | None:
        """What speaks against computing with these tensors, with the fix; None when nothing does."""
        # Where most are found: what is missing is then what is missing among these.
        prefix = max(self.prefixes, key=lambda prefix: sum(prefix + name in found for name in self.encoder))
        wanted = {prefix + name: shape for name, shape in self.encoder.items()} | self.head
        total = len(wanted)
        missing = [name for name in wanted if not self._is_there(name, found)]
        if missing:
            others = f", and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            held = f"; what it has begins with {min(found, default='nothing')}" if len(missing) == total else ""
            return (
                f"its weights lack {', '.join(missing[:_NAMED])}{others} ({len(missing)} of the {total} tensors that "
                f"it computes with{held}), and scores would be random: download or save the model again"
            )
        if self.quantised:
            return None
        for name, shape in wanted.items():
            if (is_ := found.get(_spelling(name, found))) != shape:
                return f"its {name} is of shape {is_}, and its config.json asks for {shape}: one of them is not its own"
        return None

    def _is_there(self, name: str, found: Mapping[str, Shape]) -> bool:
        if _spelling(name, found) in found:
            return True
        module, _, last = name.rpartition(".")
        return self.quantised and last == "weight" and any(f"{module}.{packed}" in found for packed in _PACKED)


def _spelling(name: str, found: Mapping[str, Shape]) -> str:
    """BERT's first checkpoints name a LayerNorm's weights otherwise, and vLLM knows it."""
    if name in found:
        return name
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def needed_weights(card: ModelCard, config: Mapping[str, Any]) -> Needed | None:
    """What a recognised model computes with; None for one of which only its IO processor knows that.

    `config`: its config.json, overrides included. Raises ValueError where transformers cannot build such a model.
    """
    import torch  # noqa: PLC0415 -- heavy
    import transformers  # noqa: PLC0415 -- heavy

    model_class = getattr(transformers, _CLASSES.get(card.architecture, card.architecture), None)
    if card.kind is ModelKind.CUSTOM or model_class is None:
        return None
    kept = {key: value for key, value in config.items() if key not in ("quantization_config", "attn_implementation")}
    try:
        built_from = model_class.config_class.from_dict(kept)
        built_from._attn_implementation = "eager"  # noqa: SLF001 -- whatever is asked for, nothing is computed
        with torch.device("meta"):
            model = model_class(built_from)
    except Exception as broken:
        raise ValueError(f"transformers {transformers.__version__} cannot build it: {broken}") from broken
    return _needed(card, model, quantised="quantization_config" in config)


def _needed(card: ModelCard, model: Any, *, quantised: bool) -> Needed:
    body, prefix = model.base_model, f"{model.base_model_prefix}."
    encoder = {name: tuple(parameter.shape) for name, parameter in body.named_parameters()}
    head: dict[str, Shape] = {}
    if card.kind in _VECTORS:
        encoder = {name: shape for name, shape in encoder.items() if not name.startswith("pooler.")}
    elif body is not model:
        output = model.get_output_embeddings()
        tied = output is not None and model.config.tie_word_embeddings
        head = {
            name: tuple(parameter.shape)
            for name, parameter in model.named_parameters()
            if not name.startswith(prefix) and not (tied and parameter is output.weight)
        }
    prefixes = _DECODER_PREFIXES if card.causal else _PREFIXES.get(card.architecture, (prefix,))
    return Needed(encoder, head, prefixes, quantised)


def check_weights(engine: EngineSettings, card: ModelCard) -> None:
    """Raises SettingsInvalid, with the fix, unless all is there that the model computes with. Blocking, for seconds."""
    if engine.args.get("load_format") == _NO_WEIGHTS:
        raise SettingsInvalid(f"engine.args.load_format is {_NO_WEIGHTS}: remove it, because its scores are random")
    files = ModelFiles(engine.model, card.folder, card.revision)
    try:
        needed = needed_weights(card, files.config() | dict(engine.args.get("hf_overrides", {})))
    except ValueError as broken:
        raise files.refuse(f"{broken}: correct its config.json") from broken
    problem = needed.problem(files.tensor_shapes()) if needed else None
    if problem:
        raise files.refuse(problem)
