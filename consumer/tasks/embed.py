"""embed: texts as vectors."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard
from consumer.numbers import unit
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, Shaped
from consumer.sections import LimitSettings
from consumer.tasks.items import NON_FINITE, elements, outcomes, prepare_items
from consumer.tasks.texts import Texts
from schemas.errors import ErrorCode
from schemas.request import EmbedRequest


class Embed:
    """One vector per input: cut to `dimensions`, then scaled to length 1 if `normalize`."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        self._card = card
        self._texts = {
            "query": Texts(card, encoder, limits, card.query_prompt),
            "document": Texts(card, encoder, limits, card.document_prompt),
        }

    def parse(self, request: EmbedRequest) -> list[str]:
        """The inputs, each with its role's prompt. Raises RecordRejected."""
        card = self._card
        if request.role is None and card.query_prompt != card.document_prompt:
            raise RecordRejected(
                ErrorCode.SCHEMA,
                "`role`: the loaded model embeds queries and documents differently; say which these are",
            )
        if request.dimensions not in (None, card.hidden_size) and request.dimensions not in card.dimensions:
            able = f"takes {card.dimension_choices}" if card.dimensions else "was not trained for shorter vectors"
            able += f"; all are {card.hidden_size}"
            raise RecordRejected(ErrorCode.SCHEMA, f"`dimensions`: the loaded model {able}")
        texts = self._texts_of(request)
        return [texts.to_tokenise(one.text, f"`input[{index}]`", index) for index, one in enumerate(request.inputs)]

    def prepare(self, request: EmbedRequest, texts: Sequence[EncodedText]) -> Prepared:
        """One sequence per input. Raises RecordRejected."""
        role = self._texts_of(request)
        sequences = [
            role.sequence(one.text, encoded, truncate=request.truncate)
            for one, encoded in zip(request.inputs, texts, strict=True)
        ]
        return prepare_items(request, sequences, Pooling.EMBED)

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped:
        """The vectors; they have no scale. Raises RecordRejected when there is none."""
        request = prepared.request
        assert isinstance(request, EmbedRequest)
        values = {index: _vector(output, request) for index, output in outcomes(prepared, outputs).items()}
        return Shaped(results=elements(request.inputs, values), scale=None)

    def _texts_of(self, request: EmbedRequest) -> Texts:
        return self._texts[request.role or "document"]


def _vector(output: EngineOutput, request: EmbedRequest) -> dict[str, Any] | InputRejected:
    if isinstance(output, InputRejected):
        return output
    vector = output[: request.dimensions]
    if request.normalize:
        vector = unit(vector)
    if not np.isfinite(vector).all():
        return NON_FINITE
    if request.encoding_format == "base64":
        return {"embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()}
    return {"embedding": np.ascontiguousarray(vector)}
