"""Late interaction: the best match of each of the query's tokens, added up; skipped tokens never match."""

from dataclasses import replace

import numpy as np
import pytest

from consumer.errors import RecordRejected
from consumer.interfaces import Task
from consumer.model.card import ModelKind, Scale
from consumer.numbers import maxsim, unit
from consumer.records import EngineOutput, InputRejected, Pooling, Shaped
from consumer.sections import LimitSettings
from consumer.tasks import tasks_for
from consumer.vector_layout import VectorLayout
from schemas.errors import ErrorCode
from schemas.request import RerankRequest, ScoreRequest
from tests.unit.tasks.fakes import EMBEDDER, SEPARATOR, START, WordEncoder

CARD = replace(EMBEDDER, kind=ModelKind.LATE_INTERACTION, scale=Scale.MAXSIM, pooling=None, hidden_size=2)
QUERY_MARK, DOCUMENT_MARK, COMMA = 3, 4, 11
"""A comma is a word of one letter to the encoder."""


class MarkingEncoder(WordEncoder):
    """[1, mark, words, 2]; queries have at most 8 tokens."""

    def __init__(self, filling: int | None = None) -> None:
        head = [START, QUERY_MARK], [START, DOCUMENT_MARK]
        self.vectors = VectorLayout(*head, [SEPARATOR], 8, filling, frozenset({COMMA}))


def task(name: str, encoder: MarkingEncoder) -> Task:
    return tasks_for(CARD, encoder, LimitSettings())[name]


def rerank(*documents: str, query: str = "which one", **more) -> RerankRequest:
    return RerankRequest(id="r", task="rerank", query=query, documents=list(documents), **more)


def prepared(request, encoder: MarkingEncoder | None = None):
    encoder = encoder or MarkingEncoder()
    found = task(request.task, encoder)
    return found.prepare(request, encoder.encode(found.parse(request)))


def answer(request, outputs: list[EngineOutput]) -> Shaped:
    return task(request.task, MarkingEncoder()).shape(prepared(request), outputs)


def vectors(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 2)).astype(np.float32)


def rejected(request) -> RecordRejected:
    with pytest.raises(RecordRejected) as caught:
        prepared(request)
    return caught.value


def test_query_and_document_are_marked_behind_the_first_special_token():
    found = prepared(rerank("a document"))
    assert [one.token_ids for one in found.inputs] == [[1, QUERY_MARK, 15, 13, 2], [1, DOCUMENT_MARK, 11, 18, 2]]
    assert {one.pooling for one in found.inputs} == {Pooling.TOKEN_EMBED}


def test_a_query_is_filled_up_to_its_length_and_a_document_is_not():
    found = prepared(rerank("a document"), MarkingEncoder(filling=9))
    assert [one.token_ids for one in found.inputs] == [
        [1, QUERY_MARK, 15, 13, 2, 9, 9, 9],
        [1, DOCUMENT_MARK, 11, 18, 2],
    ]


def test_the_score_is_the_sum_of_each_query_tokens_best_cosine():
    query, document = vectors(5), vectors(5, seed=1)
    shaped = answer(rerank("some document"), [query, document])
    expected = sum(max(float(one @ other) for other in unit(document)) for one in unit(query))
    assert shaped.results[0]["score"] == pytest.approx(expected, abs=1e-6)
    assert shaped.results[0]["score"].dtype == np.float32
    assert shaped.scale == "maxsim"


def test_a_skipped_token_of_a_document_never_matches_but_one_of_the_query_does():
    query, document = vectors(5), vectors(5, seed=1)
    shaped = answer(rerank(", document"), [query, document])
    assert shaped.results[0]["score"] == maxsim(unit(query), unit(np.delete(document, 2, axis=0)))


def test_a_score_does_not_depend_on_the_documents_beside_it():
    query, document = vectors(5), vectors(5, seed=1)
    alone = answer(rerank("some document"), [query, document]).results[0]["score"]
    beside = answer(rerank("some document", "one more here"), [query, document, vectors(6, seed=2)])
    assert {one["index"]: one["score"] for one in beside.results}[0] == alone


def test_documents_come_best_first_and_each_error_in_its_place():
    query, document = vectors(5), vectors(5, seed=1)
    broken = document.copy()
    broken[1, 0] = np.nan
    refused = InputRejected(ErrorCode.ENGINE_REJECTED, "no")
    request = rerank("some document", "", "its opposite", "same document", "nothing here")
    shaped = answer(request, [query, document, -document, refused, broken])
    assert [one["index"] for one in shaped.results][2:] == [1, 3, 4]
    codes = [one["error"]["code"] for one in shaped.results[2:]]
    assert codes == ["empty_input", "engine_rejected", "non_finite"]
    first, second = shaped.results[:2]
    assert first["score"] > second["score"]


def test_a_query_is_never_cut_and_a_document_is_cut_in_front_of_its_last_special_token():
    wrong = rejected(rerank("a document", query="one two three four five six"))
    assert (wrong.code, wrong.index) == (ErrorCode.TOO_LONG, None)
    assert "9 tokens" in wrong.message
    found = prepared(rerank("a " * 30, "b"))
    assert found.inputs[1].token_ids == [1, DOCUMENT_MARK, *[11] * 9, 2]
    assert found.truncated == [0]
    assert prepared(rerank("a " * 30, "b", truncate=False)).item_errors[0].code is ErrorCode.TOO_LONG
    assert prepared(rerank("a " * 5, max_tokens_per_doc=2)).truncated == [0]


def test_there_are_no_raw_scores_and_no_instruction():
    assert "maxsim" in rejected(rerank("a", raw_scores=True)).message
    assert "instruction" in rejected(rerank("a", instruction="look")).message


def test_a_query_without_a_vector_is_the_requests_error():
    with pytest.raises(RecordRejected) as caught:
        answer(rerank("some document"), [np.zeros((5, 2), np.float32), vectors(5)])
    assert caught.value.code is ErrorCode.NON_FINITE


def test_score_answers_one_pair():
    request = ScoreRequest(id="s", task="score", query="which one", document="some document")
    shaped = answer(request, [vectors(5), vectors(5, seed=1)])
    assert (len(shaped.results), shaped.scale) == (1, "maxsim")


def test_what_the_vectors_weigh_is_told():
    assert prepared(rerank("a document", "one")).output_bytes == (5 + 5 + 4) * 2 * 4
