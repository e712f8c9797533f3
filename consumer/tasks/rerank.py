"""rerank: documents in order of their relevance to a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard
from consumer.records import EngineOutput, InputRejected, Prepared, Shaped
from consumer.sections import LimitSettings
from consumer.tasks.items import elements
from consumer.tasks.relevance import relevance_for, scale_of
from schemas.request import RerankRequest


class Rerank:
    """Scored documents best first, ties by index, at most `top_n` of them; then the failed ones by index."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        self._card = card
        self._relevance = relevance_for(card, encoder, limits)

    def parse(self, request: RerankRequest) -> list[str]:
        """The query, then the documents. Raises RecordRejected."""
        scale_of(request, self._card)
        return self._relevance.parse(request, _texts(request))

    def prepare(self, request: RerankRequest, texts: Sequence[EncodedText]) -> Prepared:
        """One sequence per document, and one for the query where that is embedded. Raises RecordRejected."""
        return self._relevance.prepare(request, _texts(request), texts, request.max_tokens_per_doc)

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped:
        """The ranking. Raises RecordRejected when no document has a score."""
        request = prepared.request
        assert isinstance(request, RerankRequest)
        scale = scale_of(request, self._card)
        scores = self._relevance.scores(prepared, outputs, scale)
        scored = [(index, score) for index, score in scores.items() if not isinstance(score, InputRejected)]
        best = sorted(scored, key=lambda one: (-one[1], one[0]))[: request.top_n]
        values: dict[int, dict[str, Any] | InputRejected] = {index: {"score": score} for index, score in best}
        if request.return_documents:
            values = {index: {"score": score, "document": request.documents[index].text} for index, score in best}
        values |= {index: score for index, score in scores.items() if isinstance(score, InputRejected)}
        return Shaped(results=elements(request.documents, values), scale=scale.value)


def _texts(request: RerankRequest) -> list[str]:
    return [document.text for document in request.documents]
