"""Models that give one vector per text, in the layout of sentence-transformers: encoders, and some decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer.model.candidate import Candidate, Family
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.dense import module_kind, projected_size
from consumer.model.prompts import prompts_by_role
from consumer.model.sentence_files import check_pooling, compares_by_cosine, stated_object

_ENCODERS = ("BertModel", "RobertaModel", "XLMRobertaModel", "ModernBertModel")
_LANGUAGE_MODELS = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Published whole, though only their vectors are wanted: embedders only where their files say how to pool."""
_DECODERS = ("Qwen2Model", "Qwen3Model", "LlamaModel", *_LANGUAGE_MODELS)
_POOLINGS = {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS", "lasttoken": "LAST"}
"""sentence-transformers' names, new and old -> vLLM's."""
_FIX = 'set engine.args to {"pooler_config": {"seq_pooling_type": "CLS"}}, or "MEAN" or "LAST", as its authors say'


def _recognise(candidate: Candidate) -> ModelCard | None:
    files, causal = candidate.files, candidate.architecture in _DECODERS
    if not causal and candidate.architecture not in _ENCODERS:
        return None
    modules = files.modules()
    stated = _stated_pooling(candidate, modules)
    configured = _configured_pooling(candidate)
    if candidate.architecture in _LANGUAGE_MODELS and not (configured or stated):
        return None
    dense = _dense_modules(candidate, modules)
    pooling = configured or _named(candidate, stated)
    files.tensor_shapes()  # refuses weights that cannot be read; an embedder has no head to look at
    size = projected_size(candidate, dense, "sentence_embedding")
    query_prompt, document_prompt = prompts_by_role(candidate)
    if pooling != "LAST" and stated.get("include_prompt") is False and (query_prompt or document_prompt):
        raise files.refuse("it leaves its prompts out when it pools (include_prompt), which vLLM does not")
    if causal:
        _check_causal(candidate, pooling)
    return candidate.card(
        ModelKind.EMBEDDING,
        Scale.COSINE,
        pooling=pooling,
        causal=causal,
        hidden_size=size,
        dense_modules=len(dense),
        by_cosine=compares_by_cosine(files, length_1=bool(modules) and module_kind(modules[-1]) == "Normalize"),
        dimensions=_dimensions(candidate, size),
        query_prompt=query_prompt,
        document_prompt=document_prompt,
    )


def _dense_modules(candidate: Candidate, modules: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those behind the pooling. Raises SettingsInvalid for modules of any other kind or order."""
    files = candidate.files
    candidate.check_own_code()
    kinds = [module_kind(module) for module in modules]
    behind = kinds[2:-1] if kinds[-1:] == ["Normalize"] else kinds[2:]
    if kinds[:2] not in ([], ["Transformer"], ["Pooling"], ["Transformer", "Pooling"]) or set(behind) - {"Dense"}:
        raise files.refuse(
            f"its sentence-transformers modules {', '.join(kinds)} are not supported; Transformer, Pooling, Dense and "
            "Normalize, in this order, are"
        )
    return [module for module in modules if module_kind(module) == "Dense"]


def _dimensions(candidate: Candidate, size: int) -> Sequence[int]:
    """The lengths to which its vectors of `size` numbers may be cut."""
    stated = candidate.config.get("matryoshka_dimensions")
    if not stated:
        return range(1, size + 1) if candidate.config.get("is_matryoshka") else ()
    if not isinstance(stated, list) or not all(type(one) is int and 1 <= one <= size for one in stated):
        raise candidate.files.refuse(f"its matryoshka_dimensions {stated} are no lengths of a vector of {size} numbers")
    return stated


def _check_causal(candidate: Candidate, pooling: str) -> None:
    files = candidate.files
    if candidate.config.get("is_causal") is False or candidate.config.get("use_bidirectional_attention"):
        raise files.refuse("it is a decoder whose tokens see both sides, which is not supported")
    if pooling == "CLS":
        raise files.refuse("pooling CLS is not supported on a decoder: its first token sees no other")


def _configured_pooling(candidate: Candidate) -> str | None:
    configured = candidate.engine.args.get("pooler_config", {})
    chosen = configured.get("seq_pooling_type") or configured.get("pooling_type")
    if chosen is not None and chosen not in _POOLINGS.values():
        raise candidate.files.refuse(f"pooling {chosen} is not supported: {_FIX}")
    return None if chosen is None else str(chosen)


def _stated_pooling(candidate: Candidate, modules: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The pooling's own config.json; empty where there is none."""
    paths = [module.get("path", "") for module in modules if module_kind(module) == "Pooling"]
    name = f"{paths[0] if paths else '1_Pooling'}/config.json"
    stated = stated_object(candidate.files, name)
    check_pooling(candidate.files, name, stated)
    return stated


def _named(candidate: Candidate, stated: Mapping[str, Any]) -> str:
    """How token vectors become one, as the model's files say. Never guessed."""
    files = candidate.files
    if not stated:
        raise files.refuse(f"it does not say how to pool token vectors (no 1_Pooling/config.json): {_FIX}")
    mode = stated.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else mode
    if modes is None:
        legacy = {
            key.removeprefix("pooling_mode_"): on for key, on in stated.items() if key.startswith("pooling_mode_")
        }
        modes = [mode for mode, on in legacy.items() if on]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise files.refuse(f"its pooling {modes} is not supported: one of {', '.join(sorted(_POOLINGS))} is")
    return _POOLINGS[modes[0]]


FAMILY = Family((*_ENCODERS, *_DECODERS), _recognise)
