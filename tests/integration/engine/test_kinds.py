"""For every kind of model, numbers equal transformers' in float32 within 1e-4: alone, in company, out of the cache.

The kinds of `python -m tests.parity`, which also prints how far they are; here those of which no other test starts the
engine anyway, and of each family of decoders the one whose prompt, head and weights differ most from the others'.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from consumer.errors import RecordRejected
from consumer.numbers import sigmoid
from consumer.sections import EngineClient
from tests.integration.engine.compared import Compared
from tests.parity.kinds import TEXTS, rerank
from tests.parity.measure import WITHIN, measure

NAMES = (
    "cross-encoder, BERT, second text unmarked",
    "cross-encoder, RoBERTa, two segments",
    "cross-encoder, XLM-R",
    "cross-encoder, ModernBERT, mean",
    "decoder reranker, Qwen3 as published",
    "decoder reranker, Qwen3 converted",
    "decoder reranker, Gemma, token Yes",
)
pytestmark = pytest.mark.parametrize("compared", NAMES, indirect=True, scope="module")


async def test_numbers_equal_transformers_alone_in_company_and_again(compared: Compared):
    assert compared.expected.std() > 0.3, "texts that all score alike would show nothing"
    found = await measure(compared.loaded, compared.kind, compared.expected)
    assert found.largest <= WITHIN, found


async def test_the_order_is_that_of_transformers_and_scores_are_sigmoids_of_logits(compared: Compared):
    rows = range(0, len(TEXTS), 3)
    logits = compared.expected[list(rows), 0]
    shaped = await compared.loaded.answer(rerank(rows).model_copy(update={"raw_scores": False}))
    found = np.array([one["score"] for one in sorted(shaped.results, key=lambda one: one["index"])])
    np.testing.assert_allclose(found, sigmoid(logits), atol=WITHIN)
    assert shaped.scale == "sigmoid"
    in_order = [logits[one["index"]] for one in shaped.results]
    assert all(better > worse - WITHIN for better, worse in pairwise(in_order))


async def test_long_documents_are_cut_to_the_models_length_and_reported(compared: Compared):
    prepared = compared.loaded.prepare(rerank(range(len(TEXTS))))
    lengths = [len(one.token_ids) for one in prepared.inputs]
    assert max(lengths) == compared.loaded.engine.card.usable_tokens == 512
    assert 8 <= len(prepared.truncated) < 32
    assert all(lengths[index] == 512 for index in prepared.truncated)


async def test_the_engine_has_what_is_not_counted_of_a_prompt_that_begins_as_the_one_before(compared: Compared):
    prompts = compared.loaded.prepare(rerank(range(4))).inputs
    if not compared.loaded.engine.card.shares_prefixes:
        assert {one.shared_prefix_tokens for one in prompts} == {0}
        return
    from consumer.adapters.vllm_versions import params_of  # noqa: PLC0415 - imports vLLM, and collecting must not

    await compared.loaded.engine.use(EngineClient.ASYNC_LLM)  # the one that tells
    await compared.loaded.engine.submit(prompts)
    for prompt in prompts[1:]:
        collector = await compared.loaded.engine._llm.add_request(
            f"beside-{id(prompt)}", {"type": "token", "prompt_token_ids": prompt.token_ids}, params_of(prompt)
        )
        output = await collector.get()
        assert output.num_cached_tokens >= prompt.shared_prefix_tokens


async def test_another_instruction_is_another_score_or_refused(compared: Compared):
    template = compared.loaded.engine.card.template
    changed = rerank(range(8)).model_copy(update={"instruction": "Find names of animals"})
    if template is None or not template.takes_instruction:
        with pytest.raises(RecordRejected, match="instruction"):
            compared.loaded.prepare(changed)
        return
    found = np.array([one["score"] for one in (await compared.loaded.answer(changed)).results])
    assert np.abs(np.sort(found) - np.sort(compared.expected[:8, 0])).max() > 0.01
