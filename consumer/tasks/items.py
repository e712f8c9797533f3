"""What tasks over a list share: each item has its own outcome, and the request fails only when all of them do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer.errors import RecordRejected
from consumer.records import EngineInput, EngineOutput, InputRejected, Pooling, Prepared, TokenSequence
from schemas.errors import ErrorCode
from schemas.request import Document, ScoringRequest

NON_FINITE = InputRejected(ErrorCode.NON_FINITE, "the model gave numbers that are not finite")


def engine_input(sequence: TokenSequence, pooling: Pooling) -> EngineInput:
    """What the engine takes of a sequence."""
    return EngineInput(sequence.ids, pooling, sequence.second_segment_start)


def prepare_items(
    request: ScoringRequest, sequences: Sequence[TokenSequence | InputRejected], pooling: Pooling
) -> Prepared:
    """The request with a sequence for each item that has one; `plan` is their indices, in the order of `inputs`.

    Raises RecordRejected, with the first item's error, when no item has one.
    """
    errors = {index: one for index, one in enumerate(sequences) if isinstance(one, InputRejected)}
    scored = {index: one for index, one in enumerate(sequences) if isinstance(one, TokenSequence)}
    if not scored:
        raise RecordRejected(errors[0].code, errors[0].message, index=0)
    return Prepared(
        request=request,
        inputs=[engine_input(one, pooling) for one in scored.values()],
        item_errors=errors,
        truncated=[index for index, one in scored.items() if one.truncated],
        plan=list(scored),
    )


def outcomes(prepared: Prepared, outputs: Sequence[EngineOutput]) -> dict[int, EngineOutput]:
    """Every item's index -> its output or why it has none, in the list's order."""
    found: dict[int, EngineOutput] = dict(zip(prepared.plan, outputs, strict=True))
    return dict(sorted((found | prepared.item_errors).items())) if prepared.item_errors else found


def elements(
    documents: Sequence[Document], values: Mapping[int, Mapping[str, Any] | InputRejected]
) -> list[dict[str, Any]]:
    """The contract's elements, in the order of `values`: index, the document's id if any, and value or error.

    Raises RecordRejected, with the first item's error, when there is no value at all.
    """
    errors = {index: value for index, value in values.items() if isinstance(value, InputRejected)}
    if len(errors) == len(documents):
        raise RecordRejected(errors[0].code, errors[0].message, index=0)
    return [_element(index, documents[index], value) for index, value in values.items()]


def _element(index: int, document: Document, value: Mapping[str, Any] | InputRejected) -> dict[str, Any]:
    named: dict[str, Any] = {"index": index} if document.id is None else {"index": index, "id": document.id}
    if isinstance(value, InputRejected):
        return {**named, "error": {"code": value.code.value, "message": value.message}}
    return {**named, **value}
