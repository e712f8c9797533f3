"""What the ways to score pairs share: one query and its documents in, one score per document out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import numpy as np

from consumer.errors import RecordRejected
from consumer.model.card import Scale
from consumer.numbers import Float32s, sigmoid, unit
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, TokenSequence
from consumer.tasks.items import NON_FINITE, engine_input, outcomes, prepare_items
from consumer.tasks.texts import Texts
from schemas.errors import ErrorCode
from schemas.request import RerankRequest, ScoreRequest

PairsRequest = RerankRequest | ScoreRequest
Scores = Mapping[int, np.float32 | InputRejected]
"""Item's index -> score or why there is none, in the list's order."""


def to_tokenise(request: PairsRequest, documents: Sequence[str], queries: Texts, rows: Texts) -> list[str]:
    """The query, then the documents, each as its role wants it. Raises RecordRejected."""
    query = queries.to_tokenise(request.query, "`query`")
    if isinstance(request, ScoreRequest):
        return [query, *(rows.document_to_tokenise(document, "`document`") for document in documents)]
    listed = enumerate(documents)
    return [query, *(rows.document_to_tokenise(document, f"`documents[{index}]`", index) for index, document in listed)]


def check_no_instruction(request: PairsRequest) -> None:
    """Raises RecordRejected for an instruction, which this way to score has no place for."""
    if request.instruction is not None:
        raise RecordRejected(ErrorCode.SCHEMA, "`instruction`: the loaded model takes none")


def check_query(refusal: InputRejected | None) -> None:
    """A query that cannot be scored is the request's error. Raises RecordRejected."""
    if refusal:
        raise RecordRejected(refusal.code, f"`query`: {refusal.message}")


def query_first(
    request: PairsRequest, query: TokenSequence, documents: Sequence[TokenSequence | InputRejected], pooling: Pooling
) -> Prepared:
    """For models that read query and documents apart: the query is the first of `inputs`. Raises RecordRejected."""
    prepared = prepare_items(request, documents, pooling)
    prepared.inputs.insert(0, engine_input(query, pooling))
    return prepared


def query_directions(output: EngineOutput) -> Float32s:
    """The query's vector or vectors at length 1. Raises RecordRejected where it has none."""
    check_query(output if isinstance(output, InputRejected) else None)
    vectors = unit(np.asarray(output))
    check_query(None if np.isfinite(vectors).all() else NON_FINITE)
    return vectors


def logit_scores(prepared: Prepared, outputs: Sequence[EngineOutput], scale: Scale) -> Scores:
    """Each pair's one logit, or its sigmoid."""

    def activate(logits: Float32s) -> Float32s:
        return sigmoid(logits[:, 0]) if scale is Scale.SIGMOID else logits[:, 0]

    return scored(outcomes(prepared, outputs), activate)


def scored(found: Mapping[int, EngineOutput], activate: Callable[[Float32s], Float32s]) -> Scores:
    """Outputs become scores, all in one call; what is not a number becomes its item's error."""
    outputs = [output for output in found.values() if not isinstance(output, InputRejected)]
    scores = iter(activate(np.array(outputs)) if outputs else ())
    return {
        index: output if isinstance(output, InputRejected) else _finite(next(scores)) for index, output in found.items()
    }


def _finite(score: np.float32) -> np.float32 | InputRejected:
    return score if isfinite(score) else NON_FINITE
