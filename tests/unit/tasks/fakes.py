"""A tokenizer that a reader can run in the head: one token per word, 1 before, 2 between and after."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from consumer.interfaces import EncodedText, Task
from consumer.model.card import ModelCard, ModelKind, Scale
from consumer.records import EngineOutput, Shaped, TokenSequence
from consumer.sections import LimitSettings
from consumer.tasks import tasks_for
from consumer.tokenization import Tokens
from schemas.request import ScoringRequest

START, SEPARATOR = 1, 2

CROSS_ENCODER = ModelCard(
    kind=ModelKind.CROSS_ENCODER,
    name="tiny",
    served_names=("tiny",),
    revision=None,
    folder=Path("tiny"),
    architecture="BertForSequenceClassification",
    digest="0",
    dtype="float32",
    usable_tokens=12,
    vocabulary_size=1000,
    hidden_size=4,
    scale=Scale.SIGMOID,
    labels=("relevance",),
    has_segments=True,
)
EMBEDDER = replace(CROSS_ENCODER, kind=ModelKind.EMBEDDING, scale=Scale.COSINE, labels=(), pooling="MEAN")
CLASSIFIER = replace(CROSS_ENCODER, kind=ModelKind.CLASSIFIER, scale=Scale.SOFTMAX, labels=("bad", "so so", "good"))


class WordEncoder:
    """Each word is the token 10 + its length; the letter-less string has none."""

    prompt = None
    vectors = None

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        return [Tokens([10 + len(word) for word in text.split()]) for text in texts]

    def single(self, text: EncodedText, max_tokens: int) -> TokenSequence:
        room = max_tokens - 2
        return TokenSequence([START, *text.ids[:room], SEPARATOR], None, len(text.ids) > room)

    def pair(self, query: EncodedText, document: EncodedText, max_tokens: int) -> TokenSequence:
        head = [START, *query.ids, SEPARATOR]
        room = max_tokens - len(head) - 1
        if room < 1:
            raise ValueError("the query leaves no room for the document")
        return TokenSequence([*head, *document.ids[:room], SEPARATOR], len(head), len(document.ids) > room)


def tasks(card: ModelCard, **limits: Any) -> dict[str, Task]:
    return dict(tasks_for(card, WordEncoder(), LimitSettings(**limits)))


def answer(card: ModelCard, request: ScoringRequest, outputs: Sequence[EngineOutput], **limits: Any) -> Shaped:
    """The whole of a task, with made-up engine outputs."""
    task = tasks(card, **limits)[request.task]
    prepared = task.prepare(request, WordEncoder().encode(task.parse(request)))
    return task.shape(prepared, outputs)


def float32(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)
