"""score: how relevant one document is to a query."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard
from consumer.records import EngineOutput, InputRejected, Prepared, Shaped
from consumer.sections import LimitSettings
from consumer.tasks.items import elements
from consumer.tasks.relevance import relevance_for, scale_of
from schemas.request import ScoreRequest


class Score:
    """One pair. There is no list: an error of its document is the request's, without an index."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        self._card = card
        self._relevance = relevance_for(card, encoder, limits)

    def parse(self, request: ScoreRequest) -> list[str]:
        """The query, then the document. Raises RecordRejected."""
        scale_of(request, self._card)
        return self._relevance.parse(request, [request.document.text])

    def prepare(self, request: ScoreRequest, texts: Sequence[EncodedText]) -> Prepared:
        """One pair, or one sequence for each of its texts where they are embedded. Raises RecordRejected."""
        try:
            return self._relevance.prepare(request, [request.document.text], texts, None)
        except RecordRejected as rejected:
            raise _without_index(rejected) from rejected

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped:
        """The score. Raises RecordRejected when there is none."""
        request = prepared.request
        assert isinstance(request, ScoreRequest)
        scale = scale_of(request, self._card)
        score = self._relevance.scores(prepared, outputs, scale)[0]
        if isinstance(score, InputRejected):
            raise RecordRejected(score.code, score.message)
        return Shaped(results=elements([request.document], {0: {"score": score}}), scale=scale.value)


def _without_index(rejected: RecordRejected) -> RecordRejected:
    return RecordRejected(rejected.code, rejected.message)
