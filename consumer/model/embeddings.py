"""Encoders that give one vector per text, in the layout of sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer.model.candidate import Candidate, Family
from consumer.model.card import ModelCard, ModelKind, Scale

_ARCHITECTURES = ("BertModel", "RobertaModel", "XLMRobertaModel", "ModernBertModel")
_POOLINGS = {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS", "lasttoken": "LAST"}
"""sentence-transformers' names, new and old -> vLLM's."""
_MODULES = ("Transformer", "Pooling", "Normalize")


def _recognise(candidate: Candidate) -> ModelCard | None:
    if candidate.architecture not in _ARCHITECTURES:
        return None
    files = candidate.files
    hidden_size = candidate.positive("hidden_size")
    files.tensor_shapes()  # refuses weights that cannot be read; an embedder has no head to look at
    modules = files.json("modules.json") or []
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if unknown := [kind for kind in kinds if kind not in _MODULES]:
        raise files.refuse(f"its sentence-transformers module {unknown[0]} is not supported yet")
    query_prompt, document_prompt = _prompts(files.json("config_sentence_transformers.json"))
    return candidate.card(
        ModelKind.EMBEDDING,
        Scale.COSINE,
        pooling=_pooling(candidate, modules),
        dimensions=candidate.config.get("matryoshka_dimensions")
        or (range(1, hidden_size + 1) if candidate.config.get("is_matryoshka") else ()),
        query_prompt=query_prompt,
        document_prompt=document_prompt,
    )


def _prompts(sentence: Mapping[str, Any]) -> tuple[str, str]:
    """Of a query and of a document: those that sentence-transformers' encode_query and encode_document look for."""
    prompts = sentence.get("prompts") or {}
    default = prompts.get(sentence.get("default_prompt_name")) or ""
    documents = [prompts[role] for role in ("document", "passage", "corpus") if prompts.get(role) is not None]
    query = prompts.get("query")
    return default if query is None else query, documents[0] if documents else default


def _pooling(candidate: Candidate, modules: Sequence[Mapping[str, Any]]) -> str:
    """How token vectors become one: as configured, else as 1_Pooling/config.json says. Never guessed."""
    files = candidate.files
    configured = candidate.engine.args.get("pooler_config", {})
    fix = 'set engine.args to {"pooler_config": {"seq_pooling_type": "CLS"}}, or "MEAN", as its authors say'
    if chosen := configured.get("seq_pooling_type") or configured.get("pooling_type"):
        if chosen not in _POOLINGS.values():
            raise files.refuse(f"pooling {chosen} is not supported: {fix}")
        return str(chosen)
    paths = [module.get("path", "") for module in modules if str(module.get("type", "")).endswith(".Pooling")]
    pooling = files.json(f"{paths[0] if paths else '1_Pooling'}/config.json")
    if not pooling:
        raise files.refuse(f"it does not say how to pool token vectors (no 1_Pooling/config.json): {fix}")
    mode = pooling.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else mode
    if modes is None:
        modes = [key.removeprefix("pooling_mode_") for key, on in pooling.items() if on is True]
        modes = [mode for mode in modes if f"pooling_mode_{mode}" in pooling]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise files.refuse(f"its pooling {modes} is not supported: one of {', '.join(sorted(_POOLINGS))} is")
    return _POOLINGS[modes[0]]


FAMILY = Family(_ARCHITECTURES, _recognise)
