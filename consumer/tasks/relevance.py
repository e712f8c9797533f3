"""How relevant documents are to a query: by a cross-encoder, a decoder reranker, or the vectors of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.numbers import cosines
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, TokenSequence
from consumer.sections import LimitSettings
from consumer.tasks.items import outcomes, prepare_items
from consumer.tasks.late_interaction import ByMaxSim
from consumer.tasks.pairs import (
    PairsRequest,
    Scores,
    check_no_instruction,
    check_query,
    logit_scores,
    query_directions,
    query_first,
    scored,
    to_tokenise,
)
from consumer.tasks.prompted import ByPrompt
from consumer.tasks.texts import Texts
from schemas.errors import ErrorCode


class Relevance(Protocol):
    """Scores pairs of the request's query and each of the documents."""

    def parse(self, request: PairsRequest, documents: Sequence[str]) -> list[str]:
        """The texts to tokenise: the query, then the documents. Raises RecordRejected."""

    def prepare(
        self, request: PairsRequest, documents: Sequence[str], encoded: Sequence[EncodedText], max_tokens: int | None
    ) -> Prepared:
        """Sequences for the engine; `max_tokens` of a document alone. Raises RecordRejected."""

    def scores(self, prepared: Prepared, outputs: Sequence[EngineOutput], scale: Scale) -> Scores:
        """One score per document, on that scale. Raises RecordRejected when the query has no vector."""


def relevance_for(card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> Relevance:
    """What this model offers."""
    return _WAYS[card.kind](card, encoder, limits)


def scale_of(request: PairsRequest, card: ModelCard) -> Scale:
    """Of the scores. Raises RecordRejected for `raw_scores` where there is no activation to leave out."""
    if not request.raw_scores:
        return card.scale
    if card.scale in (Scale.COSINE, Scale.MAXSIM):
        raise RecordRejected(
            ErrorCode.SCHEMA, f"`raw_scores`: the loaded model scores by {card.scale.value}, which has no raw form"
        )
    return Scale.LOGIT


class ByPair:
    """A cross-encoder: query and document are one sequence. The query is never cut."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        self._usable_tokens = card.usable_tokens
        self._encoder = encoder
        self._texts = Texts(card, encoder, limits)

    def parse(self, request: PairsRequest, documents: Sequence[str]) -> list[str]:
        """The texts to tokenise: the query, then the documents. Raises RecordRejected."""
        check_no_instruction(request)
        return to_tokenise(request, documents, self._texts, self._texts)

    def prepare(
        self, request: PairsRequest, documents: Sequence[str], encoded: Sequence[EncodedText], max_tokens: int | None
    ) -> Prepared:
        """One pair per document. Raises RecordRejected."""
        query, *rows = encoded
        check_query(self._texts.refusal(request.query, query))
        pairs = [
            self._texts.refusal(document, row)
            or self._pair(query, row, max_tokens=max_tokens, truncate=request.truncate)
            for document, row in zip(documents, rows, strict=True)
        ]
        return prepare_items(request, pairs, Pooling.CLASSIFY)

    def _pair(
        self, query: EncodedText, row: EncodedText, *, max_tokens: int | None, truncate: bool | None
    ) -> TokenSequence | InputRejected:
        capped = self._texts.capped(row, max_tokens)
        try:
            pair = self._encoder.pair(query, capped, self._usable_tokens)
        except ValueError as no_room:
            raise RecordRejected(ErrorCode.TOO_LONG, f"`query`: {no_room}") from no_room
        return self._texts.checked(pair, row, capped, truncate=truncate)

    def scores(self, prepared: Prepared, outputs: Sequence[EngineOutput], scale: Scale) -> Scores:
        """Each pair's logit, or its sigmoid."""
        return logit_scores(prepared, outputs, scale)


class ByCosine:
    """An embedding model: the query is embedded once, each document once, each with the prompt of its role."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        self._queries = Texts(card, encoder, limits, card.query_prompt)
        self._documents = Texts(card, encoder, limits, card.document_prompt)

    def parse(self, request: PairsRequest, documents: Sequence[str]) -> list[str]:
        """The texts to tokenise: the query, then the documents. Raises RecordRejected."""
        check_no_instruction(request)
        return to_tokenise(request, documents, self._queries, self._documents)

    def prepare(
        self, request: PairsRequest, documents: Sequence[str], encoded: Sequence[EncodedText], max_tokens: int | None
    ) -> Prepared:
        """The query first, then one sequence per document. Raises RecordRejected."""
        query, *rows = encoded
        # A query is never cut: the result reports cuts by index in the list, and could not say so.
        asked = self._queries.sequence(request.query, query, truncate=False)
        if isinstance(asked, InputRejected):
            raise RecordRejected(asked.code, f"`query`: {asked.message}")
        sequences = [
            self._documents.sequence(document, row, truncate=request.truncate, max_tokens=max_tokens)
            for document, row in zip(documents, rows, strict=True)
        ]
        return query_first(request, asked, sequences, Pooling.EMBED)

    def scores(self, prepared: Prepared, outputs: Sequence[EngineOutput], scale: Scale) -> Scores:
        """The cosine between the query's vector and each document's."""
        assert scale is Scale.COSINE
        asked = query_directions(outputs[0])
        return scored(outcomes(prepared, outputs[1:]), lambda vectors: cosines(asked, vectors))


_WAYS: Mapping[ModelKind, Callable[[ModelCard, TextEncoder, LimitSettings], Relevance]] = {
    ModelKind.CROSS_ENCODER: ByPair,
    ModelKind.EMBEDDING: ByCosine,
    ModelKind.DECODER_RERANKER: ByPrompt,
    ModelKind.LATE_INTERACTION: ByMaxSim,
}
