"""Relevance by late interaction: each token of the query looks for the most similar one of the document (MaxSim)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, TextEncoder, VectorPlaces
from consumer.model.card import ModelCard, Scale
from consumer.numbers import Float32s, maxsim, unit
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, TokenSequence
from consumer.sections import LimitSettings
from consumer.tasks.items import NON_FINITE, outcomes
from consumer.tasks.pairs import (
    PairsRequest,
    Scores,
    check_no_instruction,
    check_query,
    query_directions,
    query_first,
    to_tokenise,
)
from consumer.tasks.texts import Texts
from schemas.errors import ErrorCode


class ByMaxSim:
    """The query's vectors are computed once, each document's once; what is compared never depends on its neighbours."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        assert encoder.vectors is not None
        self._places: VectorPlaces = encoder.vectors
        self._usable_tokens = card.usable_tokens
        self._size = card.hidden_size
        self._texts = Texts(card, encoder, limits)

    def parse(self, request: PairsRequest, documents: Sequence[str]) -> list[str]:
        """The texts to tokenise: the query, then the documents. Raises RecordRejected."""
        check_no_instruction(request)
        return to_tokenise(request, documents, self._texts, self._texts)

    def prepare(
        self, request: PairsRequest, documents: Sequence[str], encoded: Sequence[EncodedText], max_tokens: int | None
    ) -> Prepared:
        """The query first, then one sequence per document. Raises RecordRejected."""
        query, *rows = encoded
        check_query(self._texts.refusal(request.query, query))
        try:
            asked = self._places.query(query.ids)
        except ValueError as too_long:
            raise RecordRejected(ErrorCode.TOO_LONG, f"`query`: {too_long}") from too_long
        sequences = [
            self._texts.refusal(document, row) or self._document(row, max_tokens=max_tokens, truncate=request.truncate)
            for document, row in zip(documents, rows, strict=True)
        ]
        prepared = query_first(request, asked, sequences, Pooling.TOKEN_EMBED)
        prepared.output_bytes = prepared.prompt_tokens * self._size * np.dtype(np.float32).itemsize
        return prepared

    def scores(self, prepared: Prepared, outputs: Sequence[EngineOutput], scale: Scale) -> Scores:
        """The sum, over the query's tokens, of the largest cosine with a token of the document."""
        assert scale is Scale.MAXSIM
        asked = query_directions(outputs[0])
        ids = dict(zip(prepared.plan, (one.token_ids for one in prepared.inputs[1:]), strict=True))
        found = outcomes(prepared, outputs[1:])
        return {index: self._score(asked, output, ids.get(index, [])) for index, output in found.items()}

    def _document(
        self, row: EncodedText, *, max_tokens: int | None, truncate: bool | None
    ) -> TokenSequence | InputRejected:
        capped = self._texts.capped(row, max_tokens)
        return self._texts.checked(
            self._places.document(capped.ids, self._usable_tokens), row, capped, truncate=truncate
        )

    def _score(self, query: Float32s, output: EngineOutput, ids: Sequence[int]) -> np.float32 | InputRejected:
        if isinstance(output, InputRejected):
            return output
        score = maxsim(query, unit(output[self._places.counted(ids)]))
        return score if np.isfinite(score) else NON_FINITE
