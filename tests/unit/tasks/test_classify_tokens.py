"""Labels of tokens: each token of the text in its place, special ones and what was cut off left out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, Task
from consumer.model.card import ModelKind
from consumer.records import Pooling, TokenSequence
from consumer.sections import LimitSettings
from consumer.tasks import tasks_for
from consumer.tokenization import Tokens
from schemas.errors import ErrorCode
from schemas.request import ClassifyRequest
from tests.unit.tasks.fakes import CLASSIFIER, WordEncoder

CARD = replace(CLASSIFIER, kind=ModelKind.TOKEN_CLASSIFIER)


class PlacingEncoder(WordEncoder):
    """One token per word; it knows where the words stand."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        return [self._encoded(text) for text in texts]

    def _encoded(self, text: str) -> Tokens:
        starts = [at for at, letter in enumerate(text) if letter != " " and (at == 0 or text[at - 1] == " ")]
        return Tokens(
            [10 + len(word) for word in text.split()],
            [(start, start + len(word)) for start, word in zip(starts, text.split(), strict=True)],
        )

    def single(self, text: EncodedText, max_tokens: int) -> TokenSequence:
        sequence = super().single(text, max_tokens)
        return sequence._replace(text_span=(1, len(sequence.ids) - 1))


def classify(*inputs, **more) -> ClassifyRequest:
    return ClassifyRequest(id="c", task="classify", inputs=list(inputs), **more)


def prepared(request: ClassifyRequest, task: Task):
    return task.prepare(request, PlacingEncoder().encode(task.parse(request)))


def answer(request: ClassifyRequest, *outputs: np.ndarray):
    task = tasks_for(CARD, PlacingEncoder(), LimitSettings())["classify"]
    ready = prepared(request, task)
    assert {one.pooling for one in ready.inputs} == {Pooling.TOKEN_CLASSIFY}
    return task.shape(ready, list(outputs))


def logits(rows: int) -> np.ndarray:
    """The row's number is the largest logit of the label of that number."""
    found = np.zeros((rows, 3), np.float32)
    found[np.arange(rows), np.arange(rows) % 3] = 1 + np.arange(rows)
    return found


def test_every_token_of_the_text_has_its_place_and_its_labels_best_first():
    shaped = answer(classify("Ada  in Bern"), logits(5))
    (element,) = shaped.results
    assert [(one["start"], one["end"]) for one in element["tokens"]] == [(0, 3), (5, 7), (8, 12)]
    assert [one["labels"][0]["label"] for one in element["tokens"]] == ["so so", "good", "bad"]
    assert all(len(one["labels"]) == 3 for one in element["tokens"])
    assert sum(float(label["score"]) for label in element["tokens"][0]["labels"]) == pytest.approx(1, abs=1e-6)
    assert shaped.scale == "softmax"


def test_top_k_and_raw_scores_are_of_each_token():
    shaped = answer(classify("a b", top_k=1, raw_scores=True), logits(4))
    (element,) = shaped.results
    assert [one["labels"] for one in element["tokens"]] == [
        [{"label": "so so", "score": 2}],
        [{"label": "good", "score": 3}],
    ]
    assert shaped.scale == "logit"


def test_what_was_cut_off_a_text_has_no_tokens():
    shaped = answer(classify("a " * 30), logits(12))
    assert len(shaped.results[0]["tokens"]) == 10
    assert shaped.results[0]["tokens"][-1]["end"] == 19


def test_each_error_stays_in_its_place():
    broken = logits(3)
    broken[0, 0] = np.nan
    shaped = answer(classify("a", "", "b"), logits(3), broken)
    assert [list(one) for one in shaped.results] == [["index", "tokens"], ["index", "error"], ["index", "error"]]
    with pytest.raises(RecordRejected) as caught:
        answer(classify("a"), broken)
    assert caught.value.code is ErrorCode.NON_FINITE


def test_what_the_logits_weigh_is_told():
    task = tasks_for(CARD, PlacingEncoder(), LimitSettings())["classify"]
    assert prepared(classify("a b", "c"), task).output_bytes == (4 + 3) * 3 * 4
