"""The demo's requests, and what their results say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from producer_tools.demo.corpus import QUESTIONS, Docstring
from schemas.result import ScoreResult
from schemas.wire import encode_request, parse_result

DOCUMENTS_PER_REQUEST = 25
BEST_PER_QUESTION = 3
EMBEDDINGS = 300


class Ranked(NamedTuple):
    """One document's score for a question."""

    score: float
    name: str


def rerank_requests(documents: Sequence[Docstring]) -> Iterator[tuple[str, bytes]]:
    """(id, request): every question over all documents, DOCUMENTS_PER_REQUEST at a time."""
    for number, question in enumerate(QUESTIONS):
        for part, start in enumerate(range(0, len(documents), DOCUMENTS_PER_REQUEST)):
            request_id = f"question-{number}-part-{part}"
            some = documents[start : start + DOCUMENTS_PER_REQUEST]
            request = {
                "id": request_id,
                "task": "rerank",
                "query": question,
                "documents": [{"id": one.name, "text": f"{one.name}: {one.text}"} for one in some],
                "top_n": BEST_PER_QUESTION,
                "metadata": {"question": number},
            }
            yield request_id, encode_request(request)


def embed_requests(documents: Sequence[Docstring]) -> Iterator[tuple[str, bytes]]:
    """(id, request): a vector for each of the first EMBEDDINGS documents."""
    for number, one in enumerate(documents[:EMBEDDINGS]):
        request_id = f"embedding-{number}"
        yield request_id, encode_request({"id": request_id, "task": "embed", "input": one.text})


@dataclass(slots=True)
class Answers:
    """What has come back so far."""

    by_task: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    vector_numbers: int = 0
    _ranked: dict[int, list[Ranked]] = field(default_factory=dict)

    def take(self, value: bytes) -> None:
        """Add one result. Raises ValueError when it is none."""
        result = parse_result(value)
        if result.error is not None:
            self.errors[result.error.code] += 1
            return
        self.by_task[result.task or ""] += 1
        if result.task == "rerank":
            self._take_ranking(result)
        elif isinstance(result.results[0].embedding, list):
            self.vector_numbers = len(result.results[0].embedding)

    def best(self, question: int) -> list[Ranked]:
        """The best documents for a question, best first."""
        return sorted(self._ranked.get(question, []), reverse=True)[:BEST_PER_QUESTION]

    def _take_ranking(self, result: ScoreResult) -> None:
        question = (result.metadata or {})["question"]
        ranked = self._ranked.setdefault(question, [])
        ranked += [Ranked(item.score, item.id or "") for item in result.results if item.score is not None]
