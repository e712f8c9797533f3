"""classify: the labels of texts, or of their tokens, best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.numbers import Float32s, sigmoid, softmax
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, Shaped, TokenSequence
from consumer.sections import LimitSettings
from consumer.tasks.items import NON_FINITE, elements, outcomes, prepare_items
from consumer.tasks.texts import Texts
from schemas.request import ClassifyRequest

_ACTIVATIONS: Mapping[Scale, Callable[[Float32s], Float32s]] = {
    Scale.SIGMOID: sigmoid,
    Scale.SOFTMAX: softmax,
    Scale.LOGIT: np.asarray,
}


def classifier_for(card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> Classify:
    """What this model labels: texts, or their tokens."""
    return (ClassifyTokens if card.kind is ModelKind.TOKEN_CLASSIFIER else Classify)(card, encoder, limits)


class Classify:
    """Every label of the model's head with its score, best first, ties in the head's order, at most `top_k`."""

    def __init__(self, card: ModelCard, encoder: TextEncoder, limits: LimitSettings) -> None:
        self._card = card
        self._texts = Texts(card, encoder, limits)

    def parse(self, request: ClassifyRequest) -> list[str]:
        """The inputs. Raises RecordRejected."""
        return [
            self._texts.to_tokenise(one.text, f"`input[{index}]`", index) for index, one in enumerate(request.inputs)
        ]

    def prepare(self, request: ClassifyRequest, texts: Sequence[EncodedText]) -> Prepared:
        """One sequence per input. Raises RecordRejected."""
        return prepare_items(request, self._sequences(request, texts), Pooling.CLASSIFY)

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped:
        """The labels of each input. Raises RecordRejected when no input has any."""
        request = prepared.request
        assert isinstance(request, ClassifyRequest)
        scale = Scale.LOGIT if request.raw_scores else self._card.scale
        values: dict[int, dict[str, Any] | InputRejected] = {}
        for index, output in outcomes(prepared, outputs).items():
            if isinstance(output, InputRejected):
                values[index] = output
                continue
            scores = _ACTIVATIONS[scale](output)
            finite = np.isfinite(scores).all()
            values[index] = self._value(prepared, index, scores, request.top_k) if finite else NON_FINITE
        return Shaped(results=elements(request.inputs, values), scale=scale.value)

    def _sequences(self, request: ClassifyRequest, texts: Sequence[EncodedText]) -> list[TokenSequence | InputRejected]:
        return [
            self._texts.sequence(one.text, encoded, truncate=request.truncate)
            for one, encoded in zip(request.inputs, texts, strict=True)
        ]

    def _value(self, _prepared: Prepared, _index: int, scores: Float32s, top_k: int | None) -> dict[str, Any]:
        """What an item's element says, of its scores [labels]."""
        return {"labels": self._labels(scores, top_k)}

    def _labels(self, scores: Float32s, top_k: int | None) -> list[dict[str, Any]]:
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [{"label": self._card.labels[row], "score": scores[row]} for row in best]


class ClassifyTokens(Classify):
    """The same for every token of a text, with the code points for which it stands.

    Special tokens are left out, and so is what was cut off a text. `plan` of what it prepares: an item's index -> where
    its text stands in the sequence, and the offsets of its tokens.
    """

    def prepare(self, request: ClassifyRequest, texts: Sequence[EncodedText]) -> Prepared:
        """One sequence per input. Raises RecordRejected."""
        sequences = self._sequences(request, texts)
        prepared = prepare_items(request, sequences, Pooling.TOKEN_CLASSIFY)
        prepared.plan = {
            index: (one.text_span, texts[index].offsets)
            for index, one in enumerate(sequences)
            if isinstance(one, TokenSequence)
        }
        prepared.output_bytes = prepared.prompt_tokens * len(self._card.labels) * np.dtype(np.float32).itemsize
        return prepared

    def _value(self, prepared: Prepared, index: int, scores: Float32s, top_k: int | None) -> dict[str, Any]:
        """What an item's element says, of its scores [tokens, labels]."""
        (first, end), offsets = prepared.plan[index]
        rows = zip(offsets[: end - first], scores[first:end], strict=True)
        return {
            "tokens": [{"start": start, "end": stop, "labels": self._labels(row, top_k)} for (start, stop), row in rows]
        }
