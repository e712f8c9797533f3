"""Scores equal transformers in float32 within 1e-4: alone, in one micro-batch, and under 200 concurrent requests."""

from pathlib import Path

import numpy as np
import pytest

from consumer.numbers import sigmoid, softmax, unit
from consumer.records import EngineInput
from schemas.request import ClassifyRequest, EmbedRequest, RerankRequest, ScoreRequest
from tests.parity import reference
from tests.parity.loaded import Loaded

WITHIN = 1e-4
QUERY = "what is the capital of france?"
DOCUMENTS = [
    "The capital of France is Paris.",
    "London is the capital of the United Kingdom.",
    "Bananas are yellow.",
    "Qwen3 is powerful",
    "The capital of Brazil is Brasilia.",
    "法国的首都是巴黎。",
]
TEXTS = [
    f"{subject} {verb} {times}."
    for times in ("today", "every single day of the long and rainy year " * 8)
    for verb in ("sleeps", "is discussed by experts", "costs 12.50 EUR", "été à la plage")
    for subject in (
        "A cat",
        "The committee",
        "Nobody in this small town",
        "量子",
        "x",
        "The capital",
        "Paris",
        "A b c d e",
    )
]


def embed(*texts: str) -> EmbedRequest:
    return EmbedRequest(id="e", task="embed", inputs=list(texts), normalize=False)


def vectors(results: list[dict]) -> np.ndarray:
    return np.stack([one["embedding"] for one in results])


def scores(results: list[dict]) -> np.ndarray:
    return np.array([one["score"] for one in sorted(results, key=lambda one: one["index"])])


@pytest.fixture(scope="module")
def expected_vectors(minilm_embed: Path) -> np.ndarray:
    return reference.mean_pooled(minilm_embed, TEXTS, 256)


async def test_embeddings_alone_equal_transformers(embedder: Loaded, expected_vectors: np.ndarray):
    for text, expected in list(zip(TEXTS, expected_vectors, strict=True))[::8]:
        shaped = await embedder.answer(embed(text))
        np.testing.assert_allclose(vectors(shaped.results)[0], expected, atol=WITHIN)


async def test_64_embeddings_of_one_request_equal_transformers(embedder: Loaded, expected_vectors: np.ndarray):
    assert len(TEXTS) == 64
    shaped = await embedder.answer(embed(*TEXTS))
    np.testing.assert_allclose(vectors(shaped.results), expected_vectors, atol=WITHIN)


async def test_embeddings_of_200_concurrent_requests_equal_transformers(embedder: Loaded, expected_vectors: np.ndarray):
    rows = [number % len(TEXTS) for number in range(200)]
    shaped = await embedder.answer_together([embed(TEXTS[row]) for row in rows])
    found = np.concatenate([vectors(one.results) for one in shaped])
    np.testing.assert_allclose(found, expected_vectors[rows], atol=WITHIN)


async def test_embeddings_are_of_length_one_when_normalised(embedder: Loaded, expected_vectors: np.ndarray):
    shaped = await embedder.answer(EmbedRequest(id="e", task="embed", inputs=TEXTS))
    np.testing.assert_allclose(vectors(shaped.results), unit(expected_vectors), atol=WITHIN)
    np.testing.assert_allclose(np.linalg.norm(vectors(shaped.results), axis=1), 1, atol=1e-5)


async def test_an_embedding_model_reranks_by_cosine(embedder: Loaded, minilm_embed: Path):
    query, *rows = unit(reference.mean_pooled(minilm_embed, [QUERY, *DOCUMENTS], 256))
    shaped = await embedder.answer(RerankRequest(id="r", task="rerank", query=QUERY, documents=DOCUMENTS))
    expected = np.array([row @ query for row in rows])
    np.testing.assert_allclose(scores(shaped.results), expected, atol=WITHIN)
    assert [one["index"] for one in shaped.results] == list(np.argsort(-expected, kind="stable"))
    assert shaped.scale == "cosine"
    assert shaped.results[0]["index"] == 0


@pytest.mark.parametrize("words", [200, 254, 255, 600])
async def test_a_text_is_cut_at_the_models_256_tokens_and_not_before(embedder: Loaded, minilm_embed: Path, words: int):
    text = "river " * words
    prepared = embedder.prepare(embed(text))
    assert prepared.prompt_tokens == min(words + 2, 256)
    assert prepared.truncated == ([0] if words > 254 else [])
    shaped = await embedder.answer(embed(text))
    expected = reference.mean_pooled(minilm_embed, [text], 256)
    np.testing.assert_allclose(vectors(shaped.results), expected, atol=WITHIN)


@pytest.fixture(scope="module")
def expected_logits(minilm_cross_encoder: Path) -> np.ndarray:
    return reference.logits(minilm_cross_encoder, [(QUERY, document) for document in DOCUMENTS])[:, 0]


def rerank(*documents: str, raw_scores: bool = True) -> RerankRequest:
    return RerankRequest(id="r", task="rerank", query=QUERY, documents=list(documents), raw_scores=raw_scores)


async def test_a_cross_encoder_ranks_as_transformers_does(cross_encoder: Loaded, expected_logits: np.ndarray):
    shaped = await cross_encoder.answer(rerank(*DOCUMENTS))
    np.testing.assert_allclose(scores(shaped.results), expected_logits, atol=WITHIN)
    assert [one["index"] for one in shaped.results] == list(np.argsort(-expected_logits, kind="stable"))
    assert shaped.scale == "logit"


async def test_a_cross_encoders_score_is_the_sigmoid_of_its_logit(cross_encoder: Loaded, expected_logits: np.ndarray):
    shaped = await cross_encoder.answer(rerank(*DOCUMENTS, raw_scores=False))
    np.testing.assert_allclose(scores(shaped.results), sigmoid(expected_logits), atol=WITHIN)
    assert shaped.scale == "sigmoid"


async def test_200_concurrent_pairs_equal_transformers(cross_encoder: Loaded, expected_logits: np.ndarray):
    rows = [number % len(DOCUMENTS) for number in range(200)]
    requests = [
        ScoreRequest(id="s", task="score", query=QUERY, document=DOCUMENTS[row], raw_scores=True) for row in rows
    ]
    shaped = await cross_encoder.answer_together(requests)
    found = np.array([one.results[0]["score"] for one in shaped])
    np.testing.assert_allclose(found, expected_logits[rows], atol=WITHIN)


async def test_a_pair_without_its_segments_scores_something_else(cross_encoder: Loaded, expected_logits: np.ndarray):
    prepared = cross_encoder.prepare(rerank(*DOCUMENTS))
    flat = [EngineInput(one.token_ids, one.pooling, None) for one in prepared.inputs]
    found = np.concatenate(await cross_encoder.engine.submit(flat))
    assert np.abs(found - expected_logits).max() > 0.1


@pytest.mark.parametrize("repeats", [83, 84, 200])
async def test_a_long_document_is_cut_at_512_tokens_and_the_query_kept(
    cross_encoder: Loaded, minilm_cross_encoder: Path, repeats: int
):
    """7 + 3 + 6 x 83 is 508 tokens; 84 repeats are 514, two too many."""
    document = "the capital of france is paris " * repeats
    prepared = cross_encoder.prepare(rerank(document))
    assert prepared.prompt_tokens == min(10 + 6 * repeats, 512)
    assert prepared.truncated == ([0] if repeats > 83 else [])
    shaped = await cross_encoder.answer(rerank(document))
    expected = reference.logits(minilm_cross_encoder, [(QUERY, document)])[:, 0]
    np.testing.assert_allclose(scores(shaped.results), expected, atol=WITHIN)


async def test_a_classifiers_labels_equal_transformers(classifier: Loaded, minilm_classifier: Path):
    texts = ["it is a table", "I love this", "what a terrible, terrible day", *TEXTS[:40]]
    shaped = await classifier.answer(ClassifyRequest(id="c", task="classify", inputs=texts))
    expected = softmax(reference.logits(minilm_classifier, [(text, None) for text in texts]))
    names = ("negative", "neutral", "positive")
    for one, probabilities in zip(shaped.results, expected, strict=True):
        found = {label["label"]: label["score"] for label in one["labels"]}
        np.testing.assert_allclose([found[name] for name in names], probabilities, atol=WITHIN)
        assert [label["label"] for label in one["labels"]] == [names[row] for row in np.argsort(-probabilities)]


async def test_a_cross_encoder_classifies_single_texts_with_its_one_label(
    cross_encoder: Loaded, minilm_cross_encoder: Path
):
    shaped = await cross_encoder.answer(ClassifyRequest(id="c", task="classify", inputs=DOCUMENTS))
    expected = sigmoid(reference.logits(minilm_cross_encoder, [(text, None) for text in DOCUMENTS]))
    found = [[(label["label"], label["score"]) for label in one["labels"]] for one in shaped.results]
    assert [[name for name, _ in labels] for labels in found] == [["relevance"]] * len(DOCUMENTS)
    np.testing.assert_allclose([[score for _, score in labels] for labels in found], expected, atol=WITHIN)
