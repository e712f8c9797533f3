"""Vectors of every pooling, heads of several labels and labels of tokens equal transformers' within 1e-4.

Of the kinds of `python -m tests.parity` one per way through the worker and the engine; the others differ in weights.
"""

from __future__ import annotations

import numpy as np
import pytest

from consumer.numbers import sigmoid, softmax, unit
from consumer.records import InputRejected
from schemas.request import EmbedRequest
from tests.integration.engine.compared import Compared
from tests.parity.kinds import TEXTS
from tests.parity.measure import WITHIN, measure

NAMES = (
    "embedding, XLM-R, cls, passage prompt",
    "embedding, ModernBERT, mean, two Dense",
    "embedding, Qwen3, last, instructed query",
    "classifier, Qwen3, three labels",
    "late interaction, ColBERT, filled queries",
    "token classifier, ModernBERT",
)
pytestmark = pytest.mark.parametrize("compared", NAMES, indirect=True, scope="module")


async def test_numbers_equal_transformers_alone_in_company_and_again(compared: Compared):
    assert compared.expected.std() > 0.3, "texts that all come out alike would show nothing"
    found = await measure(compared.loaded, compared.kind, compared.expected)
    assert found.largest <= WITHIN, found


async def test_published_vectors_are_cut_first_and_then_of_length_one(compared: Compared):
    if "embed" not in compared.loaded.tasks:
        return
    rows = range(0, len(TEXTS), 9)
    request = compared.kind.request(rows)
    assert isinstance(request, EmbedRequest)
    shaped = await compared.loaded.answer(request.model_copy(update={"normalize": True}))
    found = np.stack([one["embedding"] for one in shaped.results])
    np.testing.assert_allclose(found, unit(compared.expected[list(rows)]), atol=WITHIN)
    assert found.shape[1] == compared.loaded.engine.card.hidden_size


async def test_published_labels_are_the_activation_of_the_logits(compared: Compared):
    if "classify" not in compared.loaded.tasks:
        return
    rows, card = range(0, len(TEXTS), 9), compared.loaded.engine.card
    activate = {"softmax": softmax, "sigmoid": sigmoid}[card.scale.value]
    shaped = await compared.loaded.answer(compared.kind.request(rows).model_copy(update={"raw_scores": False}))
    assert shaped.scale == card.scale.value
    found = np.array([compared.kind.numbers(one) for one in shaped.results])[:, : len(card.labels)]
    expected = compared.expected[list(rows), : len(card.labels)]
    np.testing.assert_allclose(found, activate(expected), atol=WITHIN)


async def test_a_refused_text_costs_its_neighbours_nothing(compared: Compared):
    prepared = compared.loaded.prepare(compared.kind.request(range(8)))
    prepared.inputs[3].token_ids[0] = compared.loaded.engine.card.vocabulary_size
    outputs = await compared.loaded.engine.submit(prepared.inputs)
    assert [isinstance(one, InputRejected) for one in outputs] == [at == 3 for at in range(len(outputs))]


async def test_a_long_text_is_cut_at_the_models_length_and_reported(compared: Compared):
    prepared = compared.loaded.prepare(compared.kind.request(range(len(TEXTS))))
    lengths = [len(one.token_ids) for one in prepared.inputs]
    usable = compared.loaded.engine.card.usable_tokens
    assert max(lengths) == usable
    assert 8 <= len(prepared.truncated) < len(TEXTS)
