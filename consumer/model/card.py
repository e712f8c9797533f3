"""What is known of a recognised model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from consumer.model.template import Template
from consumer.model.token_vectors import TokenVectors


class ModelKind(StrEnum):
    """What the model computes from tokens."""

    EMBEDDING = "embedding"
    """One vector per text."""
    CROSS_ENCODER = "cross_encoder"
    """One logit per pair of texts, or per text."""
    DECODER_RERANKER = "decoder_reranker"
    """One logit per prompt that holds a query and a document."""
    CLASSIFIER = "classifier"
    """Several logits per text."""
    TOKEN_CLASSIFIER = "token_classifier"  # noqa: S105 - a kind
    """Several logits per token."""
    LATE_INTERACTION = "late_interaction"
    """One vector per token."""
    CUSTOM = "custom"
    """What an IO processor knows to read."""


class Scale(StrEnum):
    """On what scale the published numbers are; the wire's values."""

    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"
    LOGIT = "logit"
    COSINE = "cosine"
    MAXSIM = "maxsim"


TASKS: Mapping[ModelKind, tuple[str, ...]] = {
    ModelKind.EMBEDDING: ("rerank", "score", "embed"),
    ModelKind.CROSS_ENCODER: ("rerank", "score", "classify"),
    ModelKind.DECODER_RERANKER: ("rerank", "score"),
    ModelKind.CLASSIFIER: ("classify",),
    ModelKind.TOKEN_CLASSIFIER: ("classify",),
    ModelKind.LATE_INTERACTION: ("rerank", "score"),
    ModelKind.CUSTOM: (),
}
"""What can be asked of each kind."""


@dataclass(frozen=True)
class ModelCard:
    """A recognised model.

    `folder`: its files. `revision`: commit or as configured. `dtype`: as configured; the engine's own once it has
    started, see VllmEngine.card. `pooling`: MEAN, CLS or LAST; None for the heads of encoders.
    `usable_tokens`: of one sequence, special tokens included. `hidden_size`: numbers of a vector. `labels`: one per row
    of the head. `scale`: of scores without `raw_scores`. `dimensions`: the lengths to which a vector may be cut; empty
    if none.
    `dense_modules`: layers behind the pooling, which the engine applies. `by_cosine`: its authors compare vectors so.
    `query_prompt`, `document_prompt`: put before a text by role. `has_segments`: it has token_type_ids, and
    once its tokenizer is loaded, that gives them. `head`: where its logits come from. `template`: the prompt of a
    decoder reranker. `token_vectors`: how a late-interaction model wants its texts. `causal`: a token sees only those
    before it.
    `engine_overrides`: what the engine must read in place of the model's config.json. `prefix_block_tokens`: equal
    beginnings are computed once, in blocks of so many tokens; 0 where they are not, and before the engine runs.
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
    dense_modules: int = 0
    by_cosine: bool = True
    query_prompt: str = ""
    document_prompt: str = ""
    has_segments: bool = False
    lower_case: bool = False
    head: str | None = None
    template: Template | None = None
    token_vectors: TokenVectors | None = None
    causal: bool = False
    engine_overrides: Mapping[str, Any] = field(default_factory=dict)
    prefix_block_tokens: int = 0
    changes: str = "{}"
    """What engine.args change about the numbers, as JSON."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it can do. Vectors that are meant for another measure than the cosine are not compared by it."""
        return TASKS[self.kind] if self.by_cosine else ("embed",)

    @property
    def advice(self) -> Mapping[str, str]:
        """What to know of an entry of describe() that is less than one would expect."""
        compared = (
            "rerank and score compare vectors by cosine, and config_sentence_transformers.json names another measure "
            "(similarity_fn_name) without a Normalize module: take the vectors by embed with `normalize: false`, or "
            "state cosine there if it was trained for that"
        )
        return {} if self.by_cosine else {"tasks": compared}

    @property
    def dimension_choices(self) -> list[int] | str:
        """`dimensions` for a reader."""
        lengths = self.dimensions
        return f"{lengths[0]} to {lengths[-1]}" if isinstance(lengths, range) else list(lengths)

    @property
    def shares_prefixes(self) -> bool:
        """What is computed for the beginning of a text holds for every text that begins so."""
        return self.causal and self.pooling == "LAST"

    @cached_property
    def fingerprint(self) -> str:
        """Names everything that scores depend on: two results compare only when it is equal. 32 hex digits."""
        parts: list[Any] = [self.digest, self.dtype, self.pooling, self.usable_tokens, self.changes]
        parts += [self.query_prompt, self.document_prompt, asdict(self.template) if self.template else None]
        parts += [asdict(self.token_vectors)] if self.token_vectors else []
        # Another release of transformers may make another tokenizer of the same files.
        parts += ["token_type_ids"] if self.has_segments else []
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
            "head": self.head,
            "hidden_size": self.hidden_size,
            "labels": list(self.labels),
            "dimensions": self.dimension_choices,
            "query_prompt": self.query_prompt,
            "document_prompt": self.document_prompt,
            # In one line, as YAML takes it.
            "template": json.dumps(self.template.text, ensure_ascii=False) if self.template else None,
            "instruction": self.template.instruction if self.template else None,
            "token_type_ids": self.has_segments,
            "token_vectors": asdict(self.token_vectors) if self.token_vectors else None,
        }
