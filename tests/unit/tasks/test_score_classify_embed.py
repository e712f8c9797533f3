"""score, classify and embed: one pair, labels, vectors."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.errors import RecordRejected
from consumer.model.card import Scale
from consumer.records import InputRejected
from schemas.errors import ErrorCode
from schemas.request import ClassifyRequest, EmbedRequest, ScoreRequest
from tests.unit.tasks.fakes import CLASSIFIER, CROSS_ENCODER, EMBEDDER, WordEncoder, answer, float32, tasks

NOT_NUMBERS = InputRejected(ErrorCode.NON_FINITE, "not finite")


def score(document="an answer", **more) -> ScoreRequest:
    return ScoreRequest(id="s", task="score", **{"query": "which one", "document": document} | more)


def classify(*inputs, **more) -> ClassifyRequest:
    return ClassifyRequest(id="c", task="classify", inputs=list(inputs), **more)


def embed(*inputs, **more) -> EmbedRequest:
    return EmbedRequest(id="e", task="embed", inputs=list(inputs), **more)


def rejected(card, request, outputs=(), **limits) -> RecordRejected:
    with pytest.raises(RecordRejected) as caught:
        answer(card, request, outputs, **limits)
    return caught.value


def test_each_kind_of_model_offers_what_it_can_do_and_nothing_else():
    assert set(tasks(CROSS_ENCODER)) == {"rerank", "score", "classify"}
    assert set(tasks(EMBEDDER)) == {"rerank", "score", "embed"}
    assert set(tasks(CLASSIFIER)) == {"classify"}


def test_score_answers_one_element():
    shaped = answer(CROSS_ENCODER, score({"id": "d", "text": "an answer"}), [float32(0)])
    assert (shaped.results, shaped.scale) == ([{"index": 0, "id": "d", "score": np.float32(0.5)}], "sigmoid")
    shaped = answer(EMBEDDER, score(), [float32(1, 0), float32(1, 0)])
    assert (shaped.results, shaped.scale) == ([{"index": 0, "score": np.float32(1)}], "cosine")
    shaped = answer(CROSS_ENCODER, score(raw_scores=True), [float32(-3)])
    assert (shaped.results, shaped.scale) == ([{"index": 0, "score": np.float32(-3)}], "logit")


@pytest.mark.parametrize("card", [CROSS_ENCODER, EMBEDDER])
def test_whatever_is_wrong_with_the_one_document_is_the_requests_error_without_an_index(card):
    for request, code, limits in (
        (score(" "), ErrorCode.EMPTY_INPUT, {}),
        (score("a " * 20, truncate=False), ErrorCode.TOO_LONG, {}),
        (score("a" * 30), ErrorCode.TOO_LONG, {"max_text_bytes": 20}),
        (score("data:image/png;base64,AAAA"), ErrorCode.SCHEMA, {}),
        (score("https://example.org/cat.png"), ErrorCode.SCHEMA, {}),
    ):
        wrong = rejected(card, request, **limits)
        assert (wrong.code, wrong.index) == (code, None)
    wrong = rejected(CROSS_ENCODER, score(), [NOT_NUMBERS])
    assert (wrong.code, wrong.index) == (ErrorCode.NON_FINITE, None)


@given(st.lists(st.tuples(*[st.floats(-20, 20, width=32)] * 3), min_size=1), st.none() | st.integers(1, 5))
def test_labels_are_best_first_each_once_and_their_softmax_sums_to_one(logits, top_k):
    shaped = answer(CLASSIFIER, classify(*["text"] * len(logits), top_k=top_k), [float32(*row) for row in logits])
    assert shaped.scale == "softmax"
    assert [one["index"] for one in shaped.results] == list(range(len(logits)))
    for one, row in zip(shaped.results, logits, strict=True):
        names = [label["label"] for label in one["labels"]]
        scores = [label["score"] for label in one["labels"]]
        assert len(set(names)) == len(names) == min(top_k or 3, 3)
        assert scores == sorted(scores, reverse=True)
        assert row[CLASSIFIER.labels.index(names[0])] == pytest.approx(max(row), abs=1e-5)
        if top_k is None:
            assert sum(map(float, scores)) == pytest.approx(1, abs=1e-5)


def test_equal_labels_stand_in_the_heads_order():
    shaped = answer(CLASSIFIER, classify("a"), [float32(1, 1, 1)])
    assert [label["label"] for label in shaped.results[0]["labels"]] == ["bad", "so so", "good"]


def test_a_multi_label_head_gets_a_sigmoid_for_each_label_and_raw_scores_none():
    card = replace(CLASSIFIER, scale=Scale.SIGMOID)
    shaped = answer(card, classify("a"), [float32(0, 0, 0)])
    assert [label["score"] for label in shaped.results[0]["labels"]] == [0.5, 0.5, 0.5]
    assert shaped.scale == "sigmoid"
    raw = answer(card, classify("a", raw_scores=True), [float32(3, 2, 1)])
    assert [label["score"] for label in raw.results[0]["labels"]] == [3, 2, 1]
    assert raw.scale == "logit"


def test_classify_keeps_each_error_in_its_place():
    shaped = answer(CLASSIFIER, classify("a", "", "b"), [float32(1, 2, 3), NOT_NUMBERS])
    assert [list(one) for one in shaped.results] == [["index", "labels"], ["index", "error"], ["index", "error"]]
    wrong = rejected(CLASSIFIER, classify("", "b"), [float32(1, 2, np.inf)])
    assert (wrong.code, wrong.index) == (ErrorCode.EMPTY_INPUT, 0)
    wrong = rejected(CLASSIFIER, classify("a", "data:text/html,<b>"))
    assert (wrong.code, wrong.index) == (ErrorCode.SCHEMA, 1)
    assert "input[1]" in wrong.message


@pytest.mark.parametrize(("card", "request_of"), [(CLASSIFIER, classify), (EMBEDDER, embed)])
def test_a_url_that_is_to_be_labelled_or_embedded_is_a_text(card, request_of):
    shaped = answer(card, request_of("https://example.org/login"), [float32(1, 2, 3)])
    assert "error" not in shaped.results[0]


def test_vectors_are_of_length_one_unless_asked_not_to():
    shaped = answer(EMBEDDER, embed("a"), [float32(3, 4)])
    np.testing.assert_allclose(shaped.results[0]["embedding"], [0.6, 0.8], rtol=1e-6)
    assert shaped.scale is None
    raw = answer(EMBEDDER, embed("a", normalize=False), [float32(3, 4)])
    assert raw.results[0]["embedding"].tolist() == [3, 4]
    assert raw.results[0]["embedding"].dtype == np.float32


@given(st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4), st.booleans())
def test_base64_is_the_little_endian_float32_of_the_list(numbers, normalize):
    if normalize and not any(abs(number) > 1e-3 for number in numbers):
        numbers = [1.0, *numbers[1:]]
    listed, packed = (
        answer(EMBEDDER, embed("a", normalize=normalize, encoding_format=form), [float32(*numbers)]).results[0]
        for form in ("float", "base64")
    )
    unpacked = np.frombuffer(base64.b64decode(packed["embedding"]), dtype="<f4")
    np.testing.assert_array_equal(unpacked, listed["embedding"])


def test_dimensions_cut_first_and_normalise_then_on_models_trained_for_it():
    card = replace(EMBEDDER, dimensions=range(1, 5))
    shaped = answer(card, embed("a", dimensions=2), [float32(3, 4, 12, 84)])
    np.testing.assert_allclose(shaped.results[0]["embedding"], [0.6, 0.8], rtol=1e-6)
    wrong = rejected(card, embed("a", dimensions=5))
    assert (wrong.code, wrong.index) == (ErrorCode.SCHEMA, None)
    assert "1 to 4" in wrong.message
    assert "[2, 4]" in rejected(replace(EMBEDDER, dimensions=(2, 4)), embed("a", dimensions=3)).message
    wrong = rejected(EMBEDDER, embed("a", dimensions=2))
    assert wrong.code is ErrorCode.SCHEMA
    assert str(EMBEDDER.hidden_size) in wrong.message


def test_all_the_numbers_of_a_vector_may_be_asked_for_of_any_model():
    for dimensions in ((), (2,), range(1, 3)):
        card = replace(EMBEDDER, dimensions=dimensions, hidden_size=4)
        shaped = answer(card, embed("a", dimensions=4, normalize=False), [float32(3, 4, 12, 84)])
        assert shaped.results[0]["embedding"].tolist() == [3, 4, 12, 84]
        assert rejected(card, embed("a", dimensions=5)).code is ErrorCode.SCHEMA


def test_a_role_is_required_exactly_where_prompts_differ():
    card = replace(EMBEDDER, query_prompt="query: ", document_prompt="passage: ")
    assert "role" in rejected(card, embed("a")).message
    task = tasks(card)["embed"]
    assert task.parse(embed("a", role="query")) == ["query: a"]
    assert task.parse(embed("a", role="document")) == ["passage: a"]
    same = tasks(replace(EMBEDDER, query_prompt="text: ", document_prompt="text: "))["embed"]
    assert same.parse(embed("a")) == ["text: a"]


def test_a_vector_that_has_no_direction_or_no_numbers_is_an_error():
    shaped = answer(EMBEDDER, embed("a", "b", "c"), [float32(0, 0), float32(1, 0), float32(np.nan, 1)])
    assert [one.get("error", {}).get("code") for one in shaped.results] == ["non_finite", None, "non_finite"]
    raw = answer(EMBEDDER, embed("a", normalize=False), [float32(0, 0)])
    assert raw.results[0]["embedding"].tolist() == [0, 0]


def test_a_cut_text_is_reported_by_its_index_in_the_list():
    task = tasks(EMBEDDER)["embed"]
    request = embed("", "a " * 11, "a " * 10)
    prepared = task.prepare(request, WordEncoder().encode(task.parse(request)))
    assert prepared.truncated == [1]
    assert list(prepared.item_errors) == [0]
    assert prepared.prompt_tokens == 24
