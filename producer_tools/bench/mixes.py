"""What is sent: named mixes of lengths in tokens, or any task in words. The texts are made up; that costs the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from producer_tools.generate import WORDS, GeneratedTask, generate_requests
from schemas.wire import encode_request


class Span(NamedTuple):
    """Evenly spread from `least` to `most`, both included."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Tokenisation:
    """What a worker's tokenizer makes of a scored pair of made-up texts; see `measured` in engines.py.

    `base_tokens`: its prompt and special tokens. `tokens_per_word`: 1 for the usual vocabularies.
    """

    base_tokens: float = 0.0
    tokens_per_word: float = 1.0

    def words(self, tokens: float) -> int:
        """So many words, at least one, bring a text to `tokens` tokens."""
        return max(1, round(tokens / self.tokens_per_word))


class Mix(Protocol):
    """A kind of load."""

    @property
    def name(self) -> str:
        """In reports."""

    def requests(
        self, count: int, *, seed: int, id_prefix: str, tokenisation: Tokenisation
    ) -> Iterator[tuple[str, bytes]]:
        """(id, request) of `count` requests, the same for the same seed."""


@dataclass(frozen=True, slots=True)
class PairMix:
    """Scored pairs; tokens of one request, the prompt included: one of `spans` by chance."""

    name: str
    spans: tuple[Span, ...]

    def requests(
        self, count: int, *, seed: int, id_prefix: str, tokenisation: Tokenisation
    ) -> Iterator[tuple[str, bytes]]:
        """A quarter of the words is the query."""
        chance = random.Random(seed)
        for number in range(count):
            tokens = chance.randint(*chance.choice(self.spans))
            words = max(2, tokenisation.words(tokens - tokenisation.base_tokens))
            text = chance.choices(WORDS, k=words)
            query, document = " ".join(text[: max(1, words // 4)]), " ".join(text[max(1, words // 4) :])
            yield _request(id_prefix, number, {"task": "score", "query": query, "document": document})


@dataclass(frozen=True, slots=True)
class FanOutMix:
    """One query for `documents` documents: `query_tokens`, the prompt included, are the same in all its sequences."""

    name: str
    documents: int
    query_tokens: int
    document_tokens: Span

    def requests(
        self, count: int, *, seed: int, id_prefix: str, tokenisation: Tokenisation
    ) -> Iterator[tuple[str, bytes]]:
        """Lengths of the documents vary, the query's does not."""
        chance = random.Random(seed)
        query_words = tokenisation.words(self.query_tokens - tokenisation.base_tokens)

        def text(words: int) -> str:
            return " ".join(chance.choices(WORDS, k=words))

        for number in range(count):
            lengths = [tokenisation.words(chance.randint(*self.document_tokens)) for _ in range(self.documents)]
            body = {"task": "rerank", "query": text(query_words), "documents": [text(length) for length in lengths]}
            yield _request(id_prefix, number, body)


@dataclass(frozen=True, slots=True)
class WordsMix:
    """Any task, lengths in words; see generate_requests."""

    name: str
    task: GeneratedTask
    items: int
    words: int

    def requests(
        self, count: int, *, seed: int, id_prefix: str, tokenisation: Tokenisation
    ) -> Iterator[tuple[str, bytes]]:
        """As many tokens as the words make."""
        del tokenisation
        return generate_requests(self.task, count, items=self.items, words=self.words, seed=seed, id_prefix=id_prefix)


SHORT, LONG = Span(32, 96), Span(384, 640)

NAMED: dict[str, Mix] = {
    mix.name: mix
    for mix in (
        PairMix("short", (SHORT,)),
        PairMix("mid", (Span(96, 256),)),
        PairMix("long", (LONG,)),
        PairMix("varied", (SHORT, LONG)),
        # Of 144 tokens on average 96 are shared: two thirds.
        FanOutMix("rerank50", documents=50, query_tokens=96, document_tokens=Span(32, 64)),
    )
}


def _request(id_prefix: str, number: int, body: dict[str, Any]) -> tuple[str, bytes]:
    request_id = f"{id_prefix}{number}"
    return request_id, encode_request({"id": request_id, **body})
