"""Every kind of model, with the texts it is tried on and what transformers computes of them.

A further kind is one more entry of KINDS. What is expected is computed by the model's own recipe, written down here
once more, from transformers alone: nothing of the worker takes part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from schemas.request import ClassifyRequest, Document, EmbedRequest, RerankRequest, ScoringRequest
from tests.models import decoders, encoders, minilm
from tests.parity import reference

QUERY = "what is the capital of france, and how many people live in it?"
TEXTS = [
    f"{beginning} {' '.join([middle] * times)}{end}"
    for times in (1, 5, 23, 150)
    for beginning in (
        "The capital of France is Paris.",
        "\u6cd5\u56fd\u7684\u9996\u90fd\u662f\u5df4\u9ece\u3002",
        "A panda",
        "42:",
    )
    for middle, end in (
        ("bananas are yellow,", "!"),
        ("caf\u00e9 \U0001f600", "\n"),
        ("don't pay (2.50)", "..."),
        ("x", " "),
    )
]
"""64 texts, a quarter of them longer than any model here takes."""


@dataclass(frozen=True)
class Kind:
    """`request`: of some of TEXTS, by their numbers. `numbers`: of a result's element, raw. `expected`: [64, n]."""

    name: str
    folder: Callable[[], Path]
    request: Callable[[Sequence[int]], ScoringRequest]
    numbers: Callable[[Mapping[str, Any]], Any]
    expected: Callable[[Path], np.ndarray]
    settings: Mapping[str, Any] = field(default_factory=dict)


def documents(rows: Sequence[int]) -> list[Document]:
    return [Document(text=TEXTS[row]) for row in rows]


def rerank(rows: Sequence[int]) -> RerankRequest:
    return RerankRequest(id="r", task="rerank", query=QUERY, documents=documents(rows), raw_scores=True)


def embed(rows: Sequence[int]) -> EmbedRequest:
    return EmbedRequest(id="e", task="embed", inputs=documents(rows), normalize=False)


def classify(rows: Sequence[int]) -> ClassifyRequest:
    return ClassifyRequest(id="c", task="classify", inputs=documents(rows), raw_scores=True)


def score(element: Mapping[str, Any]) -> Any:
    return [element["score"]]


def labels(element: Mapping[str, Any]) -> Any:
    """In the order of their names, which is that of the head for every model here."""
    return [label["score"] for label in sorted(element["labels"], key=lambda label: str(label["label"]))]


def vector(element: Mapping[str, Any]) -> Any:
    return element["embedding"]


def pairs(folder: Path) -> np.ndarray:
    return reference.logits(folder, [(QUERY, text) for text in TEXTS], 512)


def cross_encoder(name: str, folder: Callable[[], Path]) -> Kind:
    return Kind(name, folder, rerank, score, pairs)


QWEN3_BEGINNING = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    f"<Query>: {QUERY}\n<Document>: "
)
QWEN3_END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
OWN_BEGINNING, OWN_END = f"<|im_start|>query: {QUERY}\ndocument: ", "<|im_end|>\n<|im_start|>relevance: "
OWN = {"template": OWN_BEGINNING.replace(QUERY, "{query}") + "{document}" + OWN_END}


def decoder(
    name: str,
    folder: Callable[[], Path],
    reranker: Mapping[str, Any],
    prompt: tuple[str, str],
    answer: Callable[[Path, Sequence[Sequence[int]]], np.ndarray],
) -> Kind:
    def expected(model: Path) -> np.ndarray:
        beginning, end = prompt
        return answer(model, reference.prompt_ids(model, beginning, TEXTS, end, decoders.POSITIONS))

    return Kind(name, folder, rerank, score, expected, {"reranker": reranker})


def tokens(relevant: str, irrelevant: str | None = None) -> Callable[[Path, Sequence[Sequence[int]]], np.ndarray]:
    return lambda folder, prompts: reference.answers(folder, prompts, relevant, irrelevant)


KINDS = [
    Kind(
        "embedding, mean", minilm.minilm_embed, embed, vector, lambda folder: reference.mean_pooled(folder, TEXTS, 256)
    ),
    cross_encoder("cross-encoder, BERT", minilm.minilm_cross_encoder),
    cross_encoder("cross-encoder, BERT, second text unmarked", minilm.minilm_unmarked_cross_encoder),
    cross_encoder("cross-encoder, XLM-R", encoders.xlm_roberta),
    cross_encoder("cross-encoder, RoBERTa", encoders.roberta),
    cross_encoder("cross-encoder, RoBERTa, two segments", encoders.roberta_with_segments),
    cross_encoder("cross-encoder, ModernBERT, cls", lambda: encoders.modern_bert("cls")),
    cross_encoder("cross-encoder, ModernBERT, mean", lambda: encoders.modern_bert("mean")),
    Kind(
        "classifier, BERT",
        minilm.minilm_classifier,
        classify,
        labels,
        lambda folder: reference.logits(folder, [(text, None) for text in TEXTS], 512),
    ),
    decoder(
        "decoder reranker, Qwen3 as published",
        lambda: decoders.causal("Qwen3", tied=True),
        {"template": "qwen3"},
        (QWEN3_BEGINNING, QWEN3_END),
        tokens("yes", "no"),
    ),
    decoder(
        "decoder reranker, Qwen3 converted",
        lambda: decoders.with_head("Qwen3"),
        {"template": "qwen3"},
        (QWEN3_BEGINNING, QWEN3_END),
        reference.headed,
    ),
    decoder(
        "decoder reranker, Qwen2, tokens 1 and 0",
        lambda: decoders.causal("Qwen2"),
        OWN | {"relevant_token": "1", "irrelevant_token": "0"},
        (OWN_BEGINNING, OWN_END),
        tokens("1", "0"),
    ),
    decoder(
        "decoder reranker, Gemma, token Yes",
        lambda: decoders.causal("Gemma", tied=True),
        OWN | {"relevant_token": "Yes"},
        (OWN_BEGINNING, OWN_END),
        tokens("Yes"),
    ),
    decoder(
        "decoder reranker, Llama, tokens yes and no",
        lambda: decoders.causal("Llama"),
        OWN | {"relevant_token": "yes", "irrelevant_token": "no"},
        (OWN_BEGINNING, OWN_END),
        tokens("yes", "no"),
    ),
]
