"""IO processors without an engine: what they are asked, what they may say, and what is refused of it."""

# ruff: noqa: PLC0415 -- importing vLLM takes seconds, and collecting the tests must not

import asyncio
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, field_validator

from consumer.records import CustomPooling
from schemas.errors import ErrorCode
from tests.integration.engine.processors import float32, plugin, processor_on, refused


@pytest.mark.parametrize(
    ("prompts", "token_ids"),
    [
        ("ab", [[97, 98]]),
        ([5, 6], [[5, 6]]),
        (["a", "bc"], [[97], [98, 99]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        ({"prompt": "a"}, [[97]]),
        ({"prompt": "a", "multi_modal_data": None}, [[97]]),
        ([{"prompt_token_ids": [7]}, {"prompt_token_ids": [8], "prompt": "said for readers"}], [[7], [8]]),
    ],
)
async def test_a_processor_may_give_texts_token_ids_or_dictionaries_of_them(prompts: Any, token_ids: list[list[int]]):
    attempt = await processor_on(plugin(pre_process=lambda *_, **__: prompts)).begin("data")
    assert [one.token_ids for one in attempt.inputs] == token_ids


async def test_the_engine_is_asked_what_the_processor_asks_and_its_outputs_come_back_as_vllm_gives_them():
    processor = processor_on(plugin())
    attempt = await processor.begin(["ab", "c"])
    for one in attempt.inputs:
        assert isinstance(one.pooling, CustomPooling)
        assert (one.pooling.params.task, one.pooling.params.use_activation) == ("token_embed", False)
    answer = await processor.finish(attempt, [np.ones((2, 2), np.float32), np.array([3])])
    assert answer == {"was": ["ab", "c"], "ids": [[97, 98], [99]], "data": [[[1.0, 1.0], [1.0, 1.0]], [3]]}


async def test_parameters_that_the_processor_changes_for_the_next_request_stay_as_they_were_for_this_one():
    from vllm.pooling_params import PoolingParams

    shared = PoolingParams(task="embed", dimensions=1)

    def merge_pooling_params(_: Any, params: Any = None) -> PoolingParams:
        shared.dimensions += 1
        return shared

    processor = processor_on(plugin(merge_pooling_params=merge_pooling_params))
    first, second = await processor.begin("a"), await processor.begin("a")
    assert [one.inputs[0].pooling.params.dimensions for one in (first, second)] == [2, 3]


async def test_parameters_without_a_task_are_for_the_models_own_pooler_as_in_vllm():
    from vllm.pooling_params import PoolingParams

    attempt = await processor_on(plugin(merge_pooling_params=lambda *_: PoolingParams())).begin("a")
    assert attempt.inputs[0].pooling.params.task == "plugin"


async def test_the_hooks_names_up_to_vllm_0_26_are_called_as_well():
    from types import SimpleNamespace

    from vllm.plugins.io_processors.interface import IOProcessor
    from vllm.pooling_params import PoolingParams

    class Former(IOProcessor[Any, Any]):
        def __init__(self) -> None:
            """Needs no configuration."""

        def parse_request(self, request: Any) -> Any:
            return request["text"]

        def validate_or_generate_params(self, params: Any = None) -> PoolingParams:
            return params or PoolingParams(task="classify")

        def pre_process(self, prompt: Any, request_id: str | None = None, **_: Any) -> Any:
            return prompt

        def post_process(self, model_output: Any, request_id: str | None = None, **_: Any) -> Any:
            return SimpleNamespace(request_id=None, length=len(model_output))

        def output_to_response(self, plugin_output: Any) -> Any:
            return SimpleNamespace(data={"id": plugin_output.request_id, "length": plugin_output.length})

    processor = processor_on(Former())
    attempt = await processor.begin({"text": "ab"})
    assert attempt.inputs[0].pooling.params.task == "classify"
    assert await processor.finish(attempt, [float32(1)]) == {"id": attempt.request_id, "length": 1}


async def test_asynchronous_hooks_are_awaited_and_run_together():
    inside: list[str] = []

    async def pre_process_async(self: Any, prompt: Any, request_id: str | None = None, **_: Any) -> Any:
        inside.append(str(request_id))
        while len(inside) < 10:  # noqa: ASYNC110 -- one alone would wait for ever
            await asyncio.sleep(0.001)
        return self.pre_process(prompt, request_id)

    async def post_process_async(self: Any, model_output: Any, request_id: str | None = None, **_: Any) -> Any:
        return self.post_process([one async for _, one in model_output], request_id)

    processor = processor_on(plugin(pre_process_async=pre_process_async, post_process_async=post_process_async))
    attempts = await asyncio.gather(*(processor.begin("a") for _ in range(10)))
    assert (await processor.finish(attempts[0], [float32(0.5)]))["data"] == [[0.5]]


async def test_every_attempt_has_a_request_id_of_its_own_also_for_the_same_data():
    kept = plugin()
    processor = processor_on(kept)
    attempts = [await processor.begin("a") for _ in range(5)]
    assert len(set(kept.ids)) == len(attempts)


@pytest.mark.parametrize("fault", [ValueError("says your text"), TypeError("says your text")])
async def test_data_that_the_processor_refuses_is_the_callers_fault_and_not_quoted(fault: Exception):
    def parse_data(_: Any, data: Any) -> Any:
        raise fault

    rejected = await refused(processor_on(plugin(parse_data=parse_data)).begin("your text"))
    assert rejected.code is ErrorCode.SCHEMA
    assert rejected.message == f"the IO processor refuses `data`: {type(fault).__name__}"


async def test_what_a_pydantic_model_of_the_processors_refuses_is_told_by_field_and_not_quoted():
    class Data(BaseModel):
        count: int
        text: str = ""

        @field_validator("text")
        @classmethod
        def quote(cls, text: str) -> str:
            raise ValueError(f"cannot read {text}")

    processor = processor_on(plugin(parse_data=lambda _, data: Data.model_validate(data)))
    rejected = await refused(processor.begin({"count": "secret"}))
    assert rejected.code is ErrorCode.SCHEMA
    assert "`data.count`: Input should be a valid integer" in rejected.message
    for data in ({"count": "secret"}, {"count": 1, "text": "secret"}):
        assert "secret" not in (await refused(processor.begin(data))).message


async def test_vllms_own_errors_of_a_request_are_the_callers_fault_whichever_hook_raises_them():
    from vllm.exceptions import VLLMValidationError

    def refuse(*_: Any, **__: Any) -> Any:
        raise VLLMValidationError("no")

    assert (await refused(processor_on(plugin(pre_process=refuse)).begin("a"))).code is ErrorCode.SCHEMA
    processor = processor_on(plugin(post_process=refuse))
    attempt = await processor.begin("a")
    assert (await refused(processor.finish(attempt, [float32(1)]))).code is ErrorCode.SCHEMA


@pytest.mark.parametrize(
    ("prompts", "code", "said"),
    [
        ({"prompt_token_ids": [1], "multi_modal_data": {"image": 1}}, ErrorCode.SCHEMA, "with multi_modal_data; suppo"),
        ({"prompt_embeds": [[0.5]]}, ErrorCode.SCHEMA, "with prompt_embeds; supported is a text, a list of token ids"),
        ([b"bytes"], ErrorCode.SCHEMA, "not supported, a bytes"),
        ("123456789", ErrorCode.TOO_LONG, "9 tokens; the model takes 8"),
        ([[1] * 9], ErrorCode.TOO_LONG, "9 tokens; the model takes 8"),
        (["a"] * 4, ErrorCode.TOO_MANY_ITEMS, "4 prompts of `data`, 3 are allowed"),
        ([], ErrorCode.EMPTY_INPUT, "no prompt"),
    ],
)
async def test_prompts_that_no_engine_takes_are_refused_in_words(prompts: Any, code: ErrorCode, said: str):
    rejected = await refused(processor_on(plugin(pre_process=lambda *_, **__: prompts)).begin("data"))
    assert rejected.code is code
    assert said in rejected.message


async def test_parameters_that_can_end_the_engine_are_the_processors_own_fault():
    from vllm.pooling_params import LateInteractionParams, PoolingParams

    params = PoolingParams(task="token_embed", late_interaction_params=LateInteractionParams("score_doc", "key"))
    with pytest.raises(ValueError, match="late_interaction"):
        await processor_on(plugin(merge_pooling_params=lambda *_: params)).begin("a")


async def test_answers_may_be_models_arrays_and_tensors_but_must_be_json_in_the_end():
    import torch

    class Answer(BaseModel):
        score: float

    answers: dict[str, Any] = {
        "model": Answer(score=0.5),
        "array": float32(1),
        "tensor": torch.tensor([2]),
        "none": None,
    }
    processor = processor_on(plugin(post_process=lambda *_, **__: answers))
    assert await processor.finish(await processor.begin("a"), [float32(1)]) == {
        "model": {"score": 0.5},
        "array": [1.0],
        "tensor": [2],
        "none": None,
    }
    answers["model"] = float("nan")
    attempt = await processor.begin("a")
    assert "not finite" in (await refused(processor.finish(attempt, [float32(1)]))).message
    answers["model"] = object()
    with pytest.raises(Exception, match="not JSON"):
        await processor.finish(attempt, [float32(1)])
