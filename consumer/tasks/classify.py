"""classify: the labels of texts, best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from consumer.interfaces import EncodedText, TextEncoder
from consumer.model.card import ModelCard, Scale
from consumer.numbers import Float32s, sigmoid, softmax
from consumer.records import EngineOutput, InputRejected, Pooling, Prepared, Shaped
from consumer.sections import LimitSettings
from consumer.tasks.items import NON_FINITE, elements, outcomes, prepare_items
from consumer.tasks.texts import Texts
from schemas.request import ClassifyRequest

_ACTIVATIONS: Mapping[Scale, Callable[[Float32s], Float32s]] = {
    Scale.SIGMOID: sigmoid,
    Scale.SOFTMAX: softmax,
    Scale.LOGIT: np.asarray,
}


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
        sequences = [
            self._texts.sequence(one.text, encoded, truncate=request.truncate)
            for one, encoded in zip(request.inputs, texts, strict=True)
        ]
        return prepare_items(request, sequences, Pooling.CLASSIFY)

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped:
        """The labels of each input. Raises RecordRejected when no input has any."""
        request = prepared.request
        assert isinstance(request, ClassifyRequest)
        scale = Scale.LOGIT if request.raw_scores else self._card.scale
        values = {
            index: self._labels(output, scale, request.top_k) for index, output in outcomes(prepared, outputs).items()
        }
        return Shaped(results=elements(request.inputs, values), scale=scale.value)

    def _labels(
        self, output: EngineOutput, scale: Scale, top_k: int | None
    ) -> dict[str, list[dict[str, object]]] | InputRejected:
        if isinstance(output, InputRejected):
            return output
        scores = _ACTIVATIONS[scale](output)
        if not np.isfinite(scores).all():
            return NON_FINITE
        best = np.argsort(-scores, kind="stable")[:top_k]
        return {"labels": [{"label": self._card.labels[row], "score": scores[row]} for row in best]}
