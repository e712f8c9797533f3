"""rerank: order, ties, top_n, failed items, scales; on pairs and on vectors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.errors import RecordRejected
from consumer.records import InputRejected, Pooling
from schemas.errors import ErrorCode
from schemas.request import RerankRequest
from tests.unit.tasks.fakes import CROSS_ENCODER, EMBEDDER, WordEncoder, answer, float32, tasks

NOT_NUMBERS = InputRejected(ErrorCode.NON_FINITE, "not finite")


def rerank(*documents, **more) -> RerankRequest:
    return RerankRequest(id="r", task="rerank", **{"query": "which one", "documents": list(documents)} | more)


def prepare(card, request, **limits):
    task = tasks(card, **limits)["rerank"]
    return task.prepare(request, WordEncoder().encode(task.parse(request)))


def rejected(card, request, outputs=(), **limits) -> RecordRejected:
    with pytest.raises(RecordRejected) as caught:
        answer(card, request, outputs, **limits)
    return caught.value


logits = st.floats(-30, 30, width=32) | st.sampled_from([-1.5, 0.0, 2.0]) | st.just(float("nan"))


@given(st.lists(logits, min_size=1, max_size=30), st.none() | st.integers(1, 40), st.booleans())
def test_every_document_appears_once_best_first_ties_by_index_failed_last(values, top_n, raw_scores):
    request = rerank(*["text"] * len(values), top_n=top_n, raw_scores=raw_scores)
    if all(np.isnan(values)):
        assert rejected(CROSS_ENCODER, request, [float32(value) for value in values]).code is ErrorCode.NON_FINITE
        return
    shaped = answer(CROSS_ENCODER, request, [float32(value) for value in values])
    scored = [one for one in shaped.results if "score" in one]
    failed = [one for one in shaped.results if "error" in one]
    assert shaped.results == scored + failed
    assert [(-one["score"], one["index"]) for one in scored] == sorted((-one["score"], one["index"]) for one in scored)
    assert [one["index"] for one in failed] == [index for index, value in enumerate(values) if np.isnan(value)]
    answerable = sorted(index for index, value in enumerate(values) if not np.isnan(value))
    if top_n is None or top_n >= len(answerable):
        assert sorted(one["index"] for one in scored) == answerable
    else:
        assert len(scored) == top_n
        worst = scored[-1]
        left_out = set(answerable) - {one["index"] for one in scored}
        everyone = answer(CROSS_ENCODER, replaced(request, top_n=None), [float32(value) for value in values]).results
        by_index = {one["index"]: one["score"] for one in everyone if "score" in one}
        assert all((-by_index[index], index) > (-worst["score"], worst["index"]) for index in left_out)
    assert all(type(one["score"]) is np.float32 for one in scored)


def replaced(request: RerankRequest, **changes) -> RerankRequest:
    return request.model_copy(update=changes)


@given(st.permutations(range(8)), st.integers(0, 2**32 - 1))
def test_a_documents_score_does_not_depend_on_its_place_or_neighbours(order, seed):
    random = np.random.default_rng(seed)
    query, *vectors = random.standard_normal((9, 5)).astype(np.float32)
    straight = answer(EMBEDDER, rerank(*"abcdefgh"), [query, *vectors])
    shuffled = answer(EMBEDDER, rerank(*"abcdefgh"), [query, *(vectors[at] for at in order)])
    alone = {
        index: answer(EMBEDDER, rerank("a"), [query, vector]).results[0]["score"]
        for index, vector in enumerate(vectors)
    }
    assert {one["index"]: one["score"] for one in straight.results} == alone
    assert {order[one["index"]]: one["score"] for one in shuffled.results} == alone


def test_a_pair_is_query_then_document_with_its_second_segment():
    prepared = prepare(CROSS_ENCODER, rerank("a longer answer"))
    (one,) = prepared.inputs
    assert one.token_ids == [1, 15, 13, 2, 11, 16, 16, 2]
    assert one.second_segment_start == 4
    assert one.pooling is Pooling.CLASSIFY


def test_scores_are_the_sigmoid_of_the_logits_and_raw_scores_the_logits():
    outputs = [float32(0), float32(-2.5)]
    shaped = answer(CROSS_ENCODER, rerank("a", "b"), outputs)
    assert shaped.scale == "sigmoid"
    np.testing.assert_allclose([one["score"] for one in shaped.results], [0.5, 1 / (1 + np.exp(2.5))], rtol=1e-6)
    raw = answer(CROSS_ENCODER, rerank("a", "b", raw_scores=True), outputs)
    assert raw.scale == "logit"
    assert [one["score"] for one in raw.results] == [0, -2.5]


def test_strong_documents_keep_distinct_scores():
    """In bfloat16 all of these would be exactly 1."""
    shaped = answer(CROSS_ENCODER, rerank(*"abcd"), [float32(6.5), float32(7), float32(8), float32(9)])
    assert [one["index"] for one in shaped.results] == [3, 2, 1, 0]
    assert len({float(one["score"]) for one in shaped.results}) == 4


def test_ids_are_echoed_also_of_failed_documents_and_texts_only_on_demand():
    documents = [{"id": "x", "text": "first"}, "second", {"id": "x", "text": "third"}]
    outputs = [NOT_NUMBERS, float32(1), float32(2)]
    shaped = answer(CROSS_ENCODER, rerank(*documents, return_documents=True, raw_scores=True), outputs)
    assert shaped.results == [
        {"index": 2, "id": "x", "score": np.float32(2), "document": "third"},
        {"index": 1, "score": np.float32(1), "document": "second"},
        {"index": 0, "id": "x", "error": {"code": "non_finite", "message": "not finite"}},
    ]
    silent = answer(CROSS_ENCODER, rerank(*documents), outputs)
    assert all("document" not in one for one in silent.results)


def test_an_empty_document_keeps_its_place_as_an_error():
    shaped = answer(CROSS_ENCODER, rerank("a", " \n", "b"), [float32(1), float32(2)])
    assert [one["index"] for one in shaped.results] == [2, 0, 1]
    assert shaped.results[2]["error"]["code"] == "empty_input"


def test_an_empty_query_is_the_requests_error():
    for card in (CROSS_ENCODER, EMBEDDER):
        wrong = rejected(card, rerank("a", query=" "))
        assert (wrong.code, wrong.index) == (ErrorCode.EMPTY_INPUT, None)


def test_when_all_documents_fail_the_request_fails_with_the_first_ones_error():
    wrong = rejected(CROSS_ENCODER, rerank("", " "))
    assert (wrong.code, wrong.index) == (ErrorCode.EMPTY_INPUT, 0)
    rejection = InputRejected(ErrorCode.ENGINE_REJECTED, "no")
    wrong = rejected(CROSS_ENCODER, rerank("a", "b"), [NOT_NUMBERS, rejection])
    assert (wrong.code, wrong.message, wrong.index) == (ErrorCode.NON_FINITE, "not finite", 0)
    wrong = rejected(CROSS_ENCODER, rerank("", "b"), [rejection])
    assert (wrong.code, wrong.index) == (ErrorCode.EMPTY_INPUT, 0)


def test_a_long_document_is_cut_at_the_right_and_reported():
    prepared = prepare(CROSS_ENCODER, rerank("a " * 8, "a " * 7))
    assert [len(one.token_ids) for one in prepared.inputs] == [12, 12]
    assert prepared.truncated == [0]


def test_a_long_document_is_refused_where_it_must_not_be_cut():
    request = rerank("a " * 8, "a", truncate=False)
    shaped = answer(CROSS_ENCODER, request, [float32(1)])
    assert shaped.results[1]["error"]["code"] == "too_long"
    assert (
        answer(CROSS_ENCODER, replaced(request, truncate=None), [float32(1)], truncate=False).results == shaped.results
    )
    assert prepare(CROSS_ENCODER, replaced(request, truncate=True), truncate=False).truncated == [0]


@pytest.mark.parametrize("card", [CROSS_ENCODER, EMBEDDER])
def test_max_tokens_per_doc_cuts_the_document_alone_even_where_the_model_must_not(card):
    request = rerank("a b c d", "a b c", max_tokens_per_doc=3, truncate=False)
    prepared = prepare(card, request)
    assert prepared.truncated == [0]
    lengths = [len(one.token_ids) for one in prepared.inputs[-2:]]
    assert lengths[0] == lengths[1]


def test_a_query_that_leaves_no_room_is_too_long_and_never_cut():
    for card, words in ((CROSS_ENCODER, 9), (EMBEDDER, 11)):
        wrong = rejected(card, rerank("a", query="q " * words, truncate=True))
        assert (wrong.code, wrong.index) == (ErrorCode.TOO_LONG, None)
        assert prepare(card, rerank("a", query="q " * (words - 1))).inputs


def test_texts_with_too_many_bytes_are_never_tokenised():
    task = tasks(CROSS_ENCODER, max_text_bytes=10)["rerank"]
    request = rerank("é" * 5, "é" * 6)
    assert task.parse(request) == ["which one", "é" * 5, ""]
    shaped = answer(CROSS_ENCODER, request, [float32(1)], max_text_bytes=10)
    assert [one.get("error", {}).get("code") for one in shaped.results] == [None, "too_long"]
    wrong = rejected(CROSS_ENCODER, rerank("a", query="q" * 11), max_text_bytes=10)
    assert (wrong.code, wrong.index) == (ErrorCode.TOO_LONG, None)


@pytest.mark.parametrize("card", [CROSS_ENCODER, EMBEDDER])
def test_a_data_uri_is_refused(card):
    wrong = rejected(card, rerank("a", "data:image/png;base64,iVBORw0KGgo="))
    assert (wrong.code, wrong.index) == (ErrorCode.SCHEMA, 1)
    assert "documents[1]" in wrong.message
    for uri in (
        " DATA:text/plain,hello",
        "data:;base64,iVBORw0KGgo=",
        "data:image/svg+xml; charset=utf-8;base64,PHN2Zz4=",
    ):
        assert rejected(card, rerank("a", query=uri)).code is ErrorCode.SCHEMA
    assert prepare(card, rerank("data: the new oil, they say", "data:a/b")).inputs


@pytest.mark.parametrize("card", [CROSS_ENCODER, EMBEDDER])
@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/cat.png",
        " HTTP://example.org/a?b=c#d \n",
        "s3://bucket/cat.png",
        "gs://bucket/cat.png",
        "file:///srv/cat.png",
        "https://example.org/\u732b.png",
        "abfss://container@account/cat.png",
    ],
)
def test_a_document_that_is_nothing_but_a_url_is_refused_and_a_query_or_a_text_with_one_is_text(card, url):
    wrong = rejected(card, rerank("a", url))
    assert (wrong.code, wrong.index) == (ErrorCode.SCHEMA, 1)
    assert "`documents[1]` is a URL" in wrong.message
    assert url.strip() not in wrong.message
    assert prepare(card, rerank("a", query=url)).inputs
    assert prepare(
        card, rerank(f"see {url.strip()}", f"{url.strip()} is a cat", "https://", "a://b c", "/a/cat.png")
    ).inputs


def test_what_only_begins_like_a_uri_is_found_out_at_once():
    almost = ["https://" + "a" * 50_000 + " b", "a" * 50_000 + "://", " " * 50_000 + "a", "a://b" + " " * 50_000 + "c"]
    assert prepare(CROSS_ENCODER, rerank(*almost)).inputs
    almost = ["data:a/b" + ";" * 50_000, "data:" + ";a" * 50_000, "data:a/b" + "; " * 50_000, "data:" + "a" * 50_000]
    assert prepare(CROSS_ENCODER, rerank(*almost)).inputs


@pytest.mark.parametrize("card", [CROSS_ENCODER, EMBEDDER])
def test_an_instruction_is_refused_because_no_model_here_takes_one(card):
    wrong = rejected(card, rerank("a", instruction="be kind"))
    assert wrong.code is ErrorCode.SCHEMA
    assert "instruction" in wrong.message


def test_raw_scores_are_refused_where_the_scale_is_cosine():
    wrong = rejected(EMBEDDER, rerank("a", raw_scores=True))
    assert wrong.code is ErrorCode.SCHEMA
    assert "raw_scores" in wrong.message


def test_cosine_embeds_the_query_once_and_compares_directions():
    prepared = prepare(EMBEDDER, rerank("a", "", "b"))
    assert [one.pooling for one in prepared.inputs] == [Pooling.EMBED] * 3
    shaped = answer(EMBEDDER, rerank("a", "", "b"), [float32(2, 0), float32(0, 3), float32(5, 0)])
    assert shaped.scale == "cosine"
    assert [(one["index"], one.get("score")) for one in shaped.results] == [(2, 1), (0, 0), (1, None)]


def test_a_vector_without_a_length_has_no_cosine():
    shaped = answer(EMBEDDER, rerank("a", "b"), [float32(1, 0), float32(0, 0), float32(1, 1)])
    assert shaped.results[1]["error"]["code"] == "non_finite"
    for query in (float32(0, 0), float32(1, np.nan), float32(np.inf, 1)):
        wrong = rejected(EMBEDDER, rerank("a"), [query, float32(1, 0)])
        assert (wrong.code, wrong.index) == (ErrorCode.NON_FINITE, None)
    wrong = rejected(EMBEDDER, rerank("a"), [InputRejected(ErrorCode.ENGINE_REJECTED, "no"), float32(1, 0)])
    assert (wrong.code, wrong.index) == (ErrorCode.ENGINE_REJECTED, None)


def test_query_and_documents_get_the_prompts_of_their_roles():
    card = replace(EMBEDDER, query_prompt="query: ", document_prompt="passage: ")
    task = tasks(card)["rerank"]
    assert task.parse(rerank("one", "two")) == ["query: which one", "passage: one", "passage: two"]
    shaped = answer(card, rerank("one", ""), [float32(1, 0), float32(1, 0)])
    assert shaped.results[1]["error"]["code"] == "empty_input"
