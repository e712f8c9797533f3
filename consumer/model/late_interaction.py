"""Late interaction: a vector per token, compared by MaxSim. ColBERT's own layout, and PyLate's.

Queries and documents are marked by a token of their own. A query may be filled up with mask tokens, whose vectors
count. Where the other tokens see them too, they are just more text; where they must not, as in the first ColBERT, vLLM
has no such attention, and the model is refused unless settings say to leave the filling out.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consumer.model.candidate import Candidate, Family
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.model.dense import module_kind, projected_size
from consumer.model.sentence_files import MODEL, compares_by_cosine, stated_object
from consumer.model.token_vectors import TokenVectors

_COLBERT = "HF_ColBERT"
_BODIES = ("BertModel", "RobertaModel", "XLMRobertaModel", "ModernBertModel")
_PROJECTION = "linear.weight"
_QUERY_TOKENS, _DOCUMENT_TOKENS = 32, 180
"""PyLate's, and for queries ColBERT's, where a model states none."""


@dataclass(frozen=True)
class _Stated:
    """What a model's files say, in either layout."""

    query_marker: str
    document_marker: str
    query_tokens: int
    document_tokens: int
    fills: bool
    fillings_are_seen: bool
    skipped: Sequence[str]


def _recognise(candidate: Candidate) -> ModelCard | None:
    files = candidate.files
    modules = files.modules()
    if candidate.architecture == _COLBERT:
        stated, size, dense = _colbert(candidate), _projection_rows(candidate), 0
    elif candidate.architecture in _BODIES and _is_pylate(stated_object(files, MODEL)):
        stated = _pylate(candidate, modules)
        size, dense = projected_size(candidate, modules[1:], "token_embeddings"), len(modules) - 1
    else:
        return None
    candidate.check_own_code()
    if not compares_by_cosine(files, length_1=True):
        raise files.refuse(f"{MODEL} names another similarity_fn_name than MaxSim")
    files.tensor_shapes()  # refuses weights that cannot be read
    usable = candidate.usable_tokens(stated=stated.document_tokens)
    return candidate.card(
        ModelKind.LATE_INTERACTION,
        Scale.MAXSIM,
        usable_tokens=usable,
        hidden_size=size,
        dense_modules=dense,
        token_vectors=TokenVectors(
            stated.query_marker,
            stated.document_marker,
            min(stated.query_tokens, usable),
            _filling(candidate, stated),
            tuple(stated.skipped),
        ),
    )


def _colbert(candidate: Candidate) -> _Stated:
    files = candidate.files
    metadata = files.json("artifact.metadata")
    if not metadata:
        raise files.refuse("it does not say how queries and documents are marked (no artifact.metadata)")
    if metadata.get("similarity", "cosine") != "cosine":
        raise files.refuse(f"its similarity {metadata['similarity']} is not supported, cosine is")
    return _Stated(
        query_marker=metadata.get("query_token_id") or "[unused0]",
        document_marker=metadata.get("doc_token_id") or "[unused1]",
        query_tokens=metadata.get("query_maxlen") or _QUERY_TOKENS,
        document_tokens=metadata.get("doc_maxlen") or _DOCUMENT_TOKENS,
        fills=True,
        fillings_are_seen=bool(metadata.get("attend_to_mask_tokens")),
        skipped=string.punctuation if metadata.get("mask_punctuation", True) else (),
    )


def _projection_rows(candidate: Candidate) -> int:
    shapes = candidate.files.tensor_shapes()
    rows, columns = shapes.get(_PROJECTION, (0, 0))
    # What vLLM goes by, where config.json has one of them.
    named = [candidate.config[name] for name in ("colbert_dim", "dim", "projection_dim") if candidate.config.get(name)]
    if columns != candidate.positive("hidden_size") or "linear.bias" in shapes or named[:1] not in ([], [rows]):
        raise candidate.files.refuse(
            f"its projection {_PROJECTION} of {rows} x {columns} does not fit its config.json, or is missing"
        )
    return rows


def _is_pylate(sentence: Mapping[str, Any]) -> bool:
    return sentence.get("model_type") == "ColBERT" or "query_prefix" in sentence


def _pylate(candidate: Candidate, modules: Sequence[Mapping[str, Any]]) -> _Stated:
    files = candidate.files
    kinds = [module_kind(module) for module in modules]
    if kinds[:1] != ["Transformer"] or len(kinds) == 1 or set(kinds[1:]) != {"Dense"}:
        raise files.refuse(f"its modules {', '.join(kinds)} are not supported: Transformer and then Dense are")
    sentence = stated_object(files, MODEL)
    if sentence.get("default_prompt_name"):
        raise files.refuse("leave default_prompt_name out of its config_sentence_transformers.json: it has markers")

    def stated(name: str, default: Any) -> Any:
        return default if sentence.get(name) is None else sentence[name]

    return _Stated(
        query_marker=stated("query_prefix", "[Q] "),
        document_marker=stated("document_prefix", "[D] "),
        query_tokens=stated("query_length", _QUERY_TOKENS),
        document_tokens=stated("document_length", _DOCUMENT_TOKENS),
        fills=stated("do_query_expansion", True),
        fillings_are_seen=stated("attend_to_expansion_tokens", False),
        skipped=stated("skiplist_words", string.punctuation),
    )


def _filling(candidate: Candidate, stated: _Stated) -> str | None:
    """The token that queries are filled up with, or None."""
    files = candidate.files
    if not stated.fills or not candidate.engine.query_expansion:
        return None
    if not stated.fillings_are_seen:
        raise files.refuse(
            "its queries are filled up with mask tokens that the other tokens do not see, which vLLM cannot compute: "
            "set engine.query_expansion to false to score without them; that is not what its authors trained"
        )
    token = files.json("tokenizer_config.json").get("mask_token") or files.json("special_tokens_map.json").get(
        "mask_token"
    )
    token = token.get("content") if isinstance(token, Mapping) else token
    if not token:
        raise files.refuse(
            "its queries are filled up with mask tokens, and its tokenizer_config.json has no mask_token"
        )
    return str(token)


FAMILY = Family((_COLBERT,), _recognise)
