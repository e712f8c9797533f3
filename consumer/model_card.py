"""What the loaded model is and can do, found out from its files before anything is started.

A model that is not recognised is refused: a wrong pooling, a missing head or a lost prompt gives scores that look fine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from consumer.model_files import ModelFiles, locate
from consumer.sections import EngineSettings


class ModelKind(StrEnum):
    """What the model computes from tokens."""

    EMBEDDING = "embedding"
    """One vector per text."""
    CROSS_ENCODER = "cross_encoder"
    """One logit per pair of texts, or per text."""
    CLASSIFIER = "classifier"
    """Several logits per text."""


class Scale(StrEnum):
    """On what scale the published numbers are; the wire's values."""

    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"
    LOGIT = "logit"
    COSINE = "cosine"


TASKS: Mapping[ModelKind, tuple[str, ...]] = {
    ModelKind.EMBEDDING: ("rerank", "score", "embed"),
    ModelKind.CROSS_ENCODER: ("rerank", "score", "classify"),
    ModelKind.CLASSIFIER: ("classify",),
}
"""What can be asked of each kind."""

_EMBEDDING_ARCHITECTURES = ("BertModel", "RobertaModel", "XLMRobertaModel", "ModernBertModel")
_HEADS = {
    "BertForSequenceClassification": "classifier.weight",
    "ModernBertForSequenceClassification": "classifier.weight",
    "RobertaForSequenceClassification": "classifier.out_proj.weight",
    "XLMRobertaForSequenceClassification": "classifier.out_proj.weight",
}
"""Architecture -> the tensor whose rows are the labels."""
_POOLINGS = {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS", "lasttoken": "LAST"}
"""sentence-transformers' names, new and old -> vLLM's."""
_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta")
"""Their positions are counted from padding's id + 1, so 514 positions hold 512 tokens."""
_NO_LIMIT_TOKENS = 10**9
"""transformers writes 10**30 where a tokenizer states no length."""


@dataclass(frozen=True)
class ModelCard:
    """A recognised model.

    `folder`: its files. `revision`: commit or as configured. `dtype`: as configured; the engine's own once it has
    started, see VllmEngine.card. `pooling`: MEAN, CLS or LAST for embeddings, None for heads. `usable_tokens`: of one
    sequence, special tokens included. `hidden_size`: numbers of a vector. `labels`: one per row of the head.
    `scale`: of scores without `raw_scores`. `dimensions`: the lengths to which a vector may be cut; empty if none.
    `query_prompt`, `document_prompt`: put before a text by role. `has_segments`: it has token_type_ids.
    """

    kind: ModelKind
    name: str
    served_names: tuple[str, ...]
    revision: str | None
    folder: Path
    architecture: str
    digest: str
    dtype: str
    usable_tokens: int
    vocabulary_size: int
    hidden_size: int
    scale: Scale
    pooling: str | None = None
    labels: tuple[str, ...] = ()
    dimensions: Sequence[int] = ()
    query_prompt: str = ""
    document_prompt: str = ""
    has_segments: bool = False
    lower_case: bool = False
    changes: str = "{}"
    """What engine.args change about the numbers, as JSON."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it can do."""
        return TASKS[self.kind]

    @property
    def dimension_choices(self) -> list[int] | str:
        """`dimensions` for a reader."""
        lengths = self.dimensions
        return f"{lengths[0]} to {lengths[-1]}" if isinstance(lengths, range) else list(lengths)

    @cached_property
    def fingerprint(self) -> str:
        """Names everything that scores depend on: two results compare only when it is equal. 32 hex digits."""
        parts = [self.digest, self.dtype, self.pooling, self.usable_tokens, self.changes]
        parts += [self.query_prompt, self.document_prompt]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        """For `scorestream check`."""
        return {
            "model": self.name,
            "kind": self.kind.value,
            "architecture": self.architecture,
            "tasks": list(self.tasks),
            "served_names": list(self.served_names),
            "revision": self.revision,
            "fingerprint": self.fingerprint,
            "dtype": self.dtype,
            "usable_tokens": self.usable_tokens,
            "scale": self.scale.value,
            "pooling": self.pooling,
            "hidden_size": self.hidden_size,
            "labels": list(self.labels),
            "dimensions": self.dimension_choices,
            "query_prompt": self.query_prompt,
            "document_prompt": self.document_prompt,
            "token_type_ids": self.has_segments,
        }


def recognise(engine: EngineSettings) -> ModelCard:
    """Find out what `engine.model` is. Blocking: it may download, and reads all weights once for the fingerprint.

    Raises SettingsInvalid, with the fix, for a model that is not recognised or whose files contradict each other.
    """
    files = locate(engine.model, engine.revision)
    overrides = engine.args.get("hf_overrides", {})
    if not isinstance(overrides, Mapping):
        raise files.refuse("engine.args.hf_overrides must be an object")
    config = files.config() | dict(overrides)
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1:
        raise files.refuse(f"config.json must name one architecture in `architectures`, it says {architectures}")
    architecture = str(architectures[0])
    name = files.model if files.commit else files.folder.name
    changes = {key: engine.args[key] for key in ("hf_overrides", "pooler_config", "quantization") if key in engine.args}
    shared: dict[str, Any] = {
        "name": name,
        "served_names": engine.served_names or (name,),
        "revision": files.commit or engine.revision,
        "folder": files.folder,
        "architecture": architecture,
        "dtype": engine.dtype,
        "usable_tokens": _usable_tokens(files, config, engine.max_model_len),
        "vocabulary_size": _positive(files, config, "vocab_size"),
        "has_segments": _has_segments(files, config),
        "lower_case": bool(files.json("sentence_bert_config.json").get("do_lower_case", False)),
        "changes": json.dumps(changes, sort_keys=True, default=str),
    }
    if architecture in _EMBEDDING_ARCHITECTURES:
        special = _embedding(files, config, engine)
    elif architecture in _HEADS:
        special = _sequence_classifier(files, config, _HEADS[architecture])
    else:
        raise files.refuse(_not_supported(architecture))
    return ModelCard(**shared, **special, digest=files.digest())


def _not_supported(architecture: str) -> str:
    if architecture.endswith(("ForCausalLM", "ForConditionalGeneration")):
        seen = "a decoder without a scoring head, or a reranker that needs its prompt template"
    elif architecture.endswith("ForSequenceClassification"):
        seen = "a head on a model whose prompt is not known here"
    elif architecture.endswith("ForMaskedLM"):
        seen = "a language model without a scoring head"
    else:
        seen = "not a text encoder that is known here"
    known = ", ".join((*_EMBEDDING_ARCHITECTURES, *_HEADS))
    return f"{architecture} is not supported yet ({seen}). Supported: {known}"


def _positive(files: ModelFiles, config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if type(value) is not int or value < 1:
        raise files.refuse(f"config.json must give a positive `{name}`, it says {value}")
    return value


def _has_segments(files: ModelFiles, config: Mapping[str, Any]) -> bool:
    """More than one token type, unless the tokenizer's own configuration leaves token_type_ids out."""
    inputs = files.json("tokenizer_config.json").get("model_input_names", ["token_type_ids"])
    return bool(config.get("type_vocab_size", 0) >= 2 and "token_type_ids" in inputs)  # noqa: PLR2004 - two texts


def _usable_tokens(files: ModelFiles, config: Mapping[str, Any], wanted: int | None) -> int:
    """The least of what positions, sentence-transformers or the tokenizer state; the setting may only lower it."""
    positions = _positive(files, config, "max_position_embeddings")
    if config.get("model_type") in _POSITIONS_AFTER_PADDING:
        positions -= config.get("pad_token_id", 1) + 1
    # sentence-transformers sets the tokenizer's length to its own where it has one.
    stated = files.json("sentence_bert_config.json").get("max_seq_length")
    if stated is None:
        stated = files.json("tokenizer_config.json").get("model_max_length")
    usable = min(positions, int(stated)) if stated is not None and 0 < stated < _NO_LIMIT_TOKENS else positions
    if wanted is None:
        return usable
    if wanted > usable:
        raise files.refuse(
            f"engine.max_model_len is {wanted}, but the model takes {usable} tokens: set at most {usable}"
        )
    return wanted


def _embedding(files: ModelFiles, config: Mapping[str, Any], engine: EngineSettings) -> dict[str, Any]:
    hidden_size = _positive(files, config, "hidden_size")
    files.tensor_shapes()  # refuses weights that cannot be read; an embedder has no head to look at
    modules = files.json("modules.json") or []
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if unknown := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise files.refuse(f"its sentence-transformers module {unknown[0]} is not supported yet")
    sentence = files.json("config_sentence_transformers.json")
    prompts = sentence.get("prompts") or {}
    default = prompts.get(sentence.get("default_prompt_name")) or ""
    # The names that sentence-transformers' encode_query and encode_document look for, in their order.
    documents = [prompts[role] for role in ("document", "passage", "corpus") if prompts.get(role) is not None]
    query = prompts.get("query")
    return {
        "kind": ModelKind.EMBEDDING,
        "scale": Scale.COSINE,
        "hidden_size": hidden_size,
        "pooling": _pooling(files, modules, engine),
        "dimensions": config.get("matryoshka_dimensions")
        or (range(1, hidden_size + 1) if config.get("is_matryoshka") else ()),
        "query_prompt": default if query is None else query,
        "document_prompt": documents[0] if documents else default,
    }


def _pooling(files: ModelFiles, modules: Sequence[Mapping[str, Any]], engine: EngineSettings) -> str:
    """How token vectors become one: as configured, else as 1_Pooling/config.json says. Never guessed."""
    configured = engine.args.get("pooler_config", {})
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


def _sequence_classifier(files: ModelFiles, config: Mapping[str, Any], head: str) -> dict[str, Any]:
    shape = files.tensor_shapes().get(head)
    if shape is None:
        raise files.refuse(f"its weights have no {head}: there is no trained head, scores would be random")
    labels = _labels(files, config, rows=shape[0])
    single = len(labels) == 1
    multiple = {"multi_label_classification": Scale.SIGMOID, "regression": Scale.LOGIT}
    return {
        "kind": ModelKind.CROSS_ENCODER if single else ModelKind.CLASSIFIER,
        "scale": Scale.SIGMOID if single else multiple.get(str(config.get("problem_type")), Scale.SOFTMAX),
        "hidden_size": _positive(files, config, "hidden_size"),
        "labels": labels,
    }


def _labels(files: ModelFiles, config: Mapping[str, Any], *, rows: int) -> tuple[str, ...]:
    """One name per row of the head, in its order; transformers' LABEL_0, LABEL_1, ... where the model gives none."""
    names = config.get("id2label")
    if names is None:
        names = {str(row): f"LABEL_{row}" for row in range(config.get("num_labels", 2))}
    expected = [str(row) for row in range(rows)]
    if not isinstance(names, Mapping) or sorted(map(str, names)) != sorted(expected):
        raise files.refuse(
            f"its head has {rows} rows, but config.json names {len(names)} labels: "
            f"give its `id2label` one name for each id from 0 to {rows - 1}"
        )
    by_id = {str(key): str(label) for key, label in names.items()}
    return tuple(by_id[row] for row in expected)
