"""IO processors as people write them, on vLLM's own classes, without an engine: what they are asked, what they keep."""

# ruff: noqa: PLC0415 -- importing vLLM takes seconds, and collecting the tests must not

import asyncio
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, field_validator

from consumer.errors import RecordRejected, SettingsInvalid
from consumer.hooks import HookOverran, Hooks
from consumer.io_processors import GROUP
from consumer.records import CustomPooling
from consumer.sections import EngineSettings
from schemas.errors import ErrorCode
from tests.services.distribution import write_distribution
from tests.services.process import wait_until

USABLE_TOKENS, MAX_PROMPTS = 8, 3
WAIT_SECONDS = 60.0
Make = Callable[..., Any]


class OneTokenPerCharacter:
    """What a processor's texts are rendered with."""

    @property
    def default_cmpl_tok_params(self) -> Any:
        from vllm.renderers.params import TokenizeParams

        return TokenizeParams(max_total_tokens=USABLE_TOKENS)

    def render_cmpl(self, prompts: Any, params: Any) -> Any:
        assert params.max_total_tokens is None
        return [{"type": "token", "prompt_token_ids": [ord(one) for one in prompt["prompt"]]} for prompt in prompts]


@pytest.fixture
def make() -> Make:
    """A Processor on a plugin; its class's base is made here, because importing vLLM takes seconds."""

    def processor(plugin: Any, timeout_seconds: float = 60.0) -> Any:
        from consumer.adapters.vllm_processor import VllmProcessor

        return VllmProcessor(plugin, OneTokenPerCharacter(), Hooks(timeout_seconds), USABLE_TOKENS, MAX_PROMPTS)

    return processor


def plugin(**hooks: Any) -> Any:
    """A plugin that keeps each request's data from pre_process to post_process; `hooks` replace its own."""
    from vllm.plugins.io_processors.interface import IOProcessor
    from vllm.pooling_params import PoolingParams

    class Plugin(IOProcessor[Any, Any]):
        def __init__(self) -> None:
            self.pending: dict[str, Any] = {}
            self.ids: list[str] = []

        def parse_data(self, data: Any) -> Any:
            return data

        def pre_process(self, prompt: Any, request_id: str | None = None, **_: Any) -> Any:
            assert request_id
            self.ids.append(request_id)
            self.pending[request_id] = prompt
            return prompt

        def merge_pooling_params(self, params: PoolingParams | None = None) -> PoolingParams:
            assert params is None
            return PoolingParams(task="token_embed", use_activation=False)

        def post_process(self, model_output: Any, request_id: str | None = None, **_: Any) -> Any:
            assert request_id
            return {
                "was": self.pending.pop(request_id),
                "ids": [one.prompt_token_ids for one in model_output],
                "data": [one.outputs.data.tolist() for one in model_output],
            }

    return type("Changed", (Plugin,), hooks)()


def float32(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


async def refused(beginning: Any) -> RecordRejected:
    with pytest.raises(RecordRejected) as rejected:
        await beginning
    return rejected.value


async def until_forgotten(kept: Any) -> None:
    """An abandoned attempt is taken out of the plugin, soon."""
    await wait_until(lambda: not kept, "nothing is kept", WAIT_SECONDS)


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
async def test_a_processor_may_give_texts_token_ids_or_dictionaries_of_them(
    make: Make, prompts: Any, token_ids: list[list[int]]
):
    attempt = await make(plugin(pre_process=lambda *_, **__: prompts)).begin("data")
    assert [one.token_ids for one in attempt.inputs] == token_ids


async def test_the_engine_is_asked_what_the_processor_asks_and_its_outputs_come_back_as_vllm_gives_them(make: Make):
    processor = make(plugin())
    attempt = await processor.begin(["ab", "c"])
    for one in attempt.inputs:
        assert isinstance(one.pooling, CustomPooling)
        assert (one.pooling.params.task, one.pooling.params.use_activation) == ("token_embed", False)
    answer = await processor.finish(attempt, [np.ones((2, 2), np.float32), np.array([3])])
    assert answer == {"was": ["ab", "c"], "ids": [[97, 98], [99]], "data": [[[1.0, 1.0], [1.0, 1.0]], [3]]}


async def test_parameters_that_the_processor_changes_for_the_next_request_stay_as_they_were_for_this_one(make: Make):
    from vllm.pooling_params import PoolingParams

    shared = PoolingParams(task="embed", dimensions=1)

    def merge_pooling_params(_: Any, params: Any = None) -> PoolingParams:
        shared.dimensions += 1
        return shared

    processor = make(plugin(merge_pooling_params=merge_pooling_params))
    first, second = await processor.begin("a"), await processor.begin("a")
    assert [one.inputs[0].pooling.params.dimensions for one in (first, second)] == [2, 3]


async def test_parameters_without_a_task_are_for_the_models_own_pooler_as_in_vllm(make: Make):
    from vllm.pooling_params import PoolingParams

    attempt = await make(plugin(merge_pooling_params=lambda *_: PoolingParams())).begin("a")
    assert attempt.inputs[0].pooling.params.task == "plugin"


async def test_the_hooks_names_up_to_vllm_0_26_are_called_as_well(make: Make):
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

    processor = make(Former())
    attempt = await processor.begin({"text": "ab"})
    assert attempt.inputs[0].pooling.params.task == "classify"
    assert await processor.finish(attempt, [float32(1)]) == {"id": attempt.request_id, "length": 1}


async def test_asynchronous_hooks_are_awaited_and_run_together(make: Make):
    inside: list[str] = []

    async def pre_process_async(self: Any, prompt: Any, request_id: str | None = None, **_: Any) -> Any:
        inside.append(str(request_id))
        while len(inside) < 10:  # noqa: ASYNC110 -- one alone would wait for ever
            await asyncio.sleep(0.001)
        return self.pre_process(prompt, request_id)

    async def post_process_async(self: Any, model_output: Any, request_id: str | None = None, **_: Any) -> Any:
        return self.post_process([one async for _, one in model_output], request_id)

    processor = make(plugin(pre_process_async=pre_process_async, post_process_async=post_process_async))
    attempts = await asyncio.gather(*(processor.begin("a") for _ in range(10)))
    assert (await processor.finish(attempts[0], [float32(0.5)]))["data"] == [[0.5]]


async def test_every_attempt_has_a_request_id_of_its_own_also_for_the_same_data(make: Make):
    kept = plugin()
    processor = make(kept)
    attempts = [await processor.begin("a") for _ in range(5)]
    assert len(set(kept.ids)) == len(attempts)


@pytest.mark.parametrize("fault", [ValueError("says your text"), TypeError("says your text")])
async def test_data_that_the_processor_refuses_is_the_callers_fault_and_not_quoted(make: Make, fault: Exception):
    def parse_data(_: Any, data: Any) -> Any:
        raise fault

    rejected = await refused(make(plugin(parse_data=parse_data)).begin("your text"))
    assert rejected.code is ErrorCode.SCHEMA
    assert rejected.message == f"the IO processor refuses `data`: {type(fault).__name__}"


async def test_what_a_pydantic_model_of_the_processors_refuses_is_told_by_field_and_not_quoted(make: Make):
    class Data(BaseModel):
        count: int
        text: str = ""

        @field_validator("text")
        @classmethod
        def quote(cls, text: str) -> str:
            raise ValueError(f"cannot read {text}")

    processor = make(plugin(parse_data=lambda _, data: Data.model_validate(data)))
    rejected = await refused(processor.begin({"count": "secret"}))
    assert rejected.code is ErrorCode.SCHEMA
    assert "`data.count`: Input should be a valid integer" in rejected.message
    for data in ({"count": "secret"}, {"count": 1, "text": "secret"}):
        assert "secret" not in (await refused(processor.begin(data))).message


async def test_vllms_own_errors_of_a_request_are_the_callers_fault_whichever_hook_raises_them(make: Make):
    from vllm.exceptions import VLLMValidationError

    def refuse(*_: Any, **__: Any) -> Any:
        raise VLLMValidationError("no")

    assert (await refused(make(plugin(pre_process=refuse)).begin("a"))).code is ErrorCode.SCHEMA
    processor = make(plugin(post_process=refuse))
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
async def test_prompts_that_no_engine_takes_are_refused_in_words(make: Make, prompts: Any, code: ErrorCode, said: str):
    rejected = await refused(make(plugin(pre_process=lambda *_, **__: prompts)).begin("data"))
    assert rejected.code is code
    assert said in rejected.message


async def test_parameters_that_can_end_the_engine_are_the_processors_own_fault(make: Make):
    from vllm.pooling_params import LateInteractionParams, PoolingParams

    params = PoolingParams(task="token_embed", late_interaction_params=LateInteractionParams("score_doc", "key"))
    with pytest.raises(ValueError, match="late_interaction"):
        await make(plugin(merge_pooling_params=lambda *_: params)).begin("a")


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("own bug")


@pytest.mark.parametrize("hook", ["merge_pooling_params", "post_process"])
async def test_a_fault_of_the_processor_leaves_nothing_of_its_request_behind(make: Make, hook: str):
    kept = plugin(**{hook: fail})
    processor = make(kept)

    async def attempt() -> None:
        begun = await processor.begin("a")
        assert kept.pending
        await processor.finish(begun, [float32(1)])

    with pytest.raises(KeyError):
        await attempt()
    await until_forgotten(kept.pending)


async def test_prompts_that_are_refused_leave_nothing_of_their_request_behind(make: Make):
    kept = plugin()
    await refused(make(kept).begin("123456789"))
    await until_forgotten(kept.pending)


async def test_a_request_that_is_given_up_in_between_leaves_nothing_behind_and_its_neighbours_stay(make: Make):
    kept = plugin()
    processor = make(kept)
    neighbour = await processor.begin("b")
    given_up = await processor.begin("a")
    assert len(kept.pending) == 2
    del given_up
    await wait_until(lambda: len(kept.pending) == 1, "one is forgotten", WAIT_SECONDS)
    assert (await processor.finish(neighbour, [float32(1)]))["was"] == "b"
    assert not kept.pending


async def test_a_processor_with_a_hook_for_it_is_told_what_was_given_up_and_only_that(make: Make):
    told: list[str] = []
    kept = plugin(discard_request=lambda _, request_id: told.append(request_id))
    processor = make(kept)
    await processor.finish(await processor.begin("a"), [float32(1)])
    attempt = await processor.begin("a")
    request_id = attempt.request_id
    del attempt
    await wait_until(lambda: bool(told), "the processor is told", WAIT_SECONDS)
    assert told == [request_id]


async def test_a_hook_that_comes_back_too_late_leaves_nothing_behind_either(make: Make):
    late = threading.Event()

    def pre_process(self: Any, prompt: Any, request_id: str | None = None, **_: Any) -> Any:
        late.wait()
        self.pending[request_id] = prompt
        return prompt

    kept = plugin(pre_process=pre_process)
    processor = make(kept, timeout_seconds=0.2)
    with pytest.raises(HookOverran):
        await processor.begin("a")
    assert not kept.pending
    processor._hooks._timeout_seconds = 60.0
    late.set()
    await until_forgotten(kept.pending)


async def test_answers_may_be_models_arrays_and_tensors_but_must_be_json_in_the_end(make: Make):
    import torch

    class Answer(BaseModel):
        score: float

    answers: dict[str, Any] = {
        "model": Answer(score=0.5),
        "array": float32(1),
        "tensor": torch.tensor([2]),
        "none": None,
    }
    processor = make(plugin(post_process=lambda *_, **__: answers))
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


PROCESSORS = """
from vllm.plugins.io_processors.interface import IOProcessor

class Whole(IOProcessor):
    def parse_data(self, data): return data
    def pre_process(self, prompt, request_id=None, **more): return prompt
    def post_process(self, model_output, request_id=None, **more): return None

class WithoutParse(IOProcessor):
    def pre_process(self, prompt, request_id=None, **more): return prompt
    def post_process(self, model_output, request_id=None, **more): return None

def whole(): return "processors.Whole"
def not_here(): return None
def misspelt(): return "processors.Hole"
def failing(): raise OSError("no licence")
def without_parse(): return "processors.WithoutParse"
def abstract(): return "vllm.plugins.io_processors.interface.IOProcessor"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Install processors of PROCESSORS by name, and find their classes."""

    def find(*names: str, io_processors: tuple[str, ...] | None = None) -> Any:
        from consumer.adapters.vllm_plugins import processor_classes

        points = {name: f"processors:{name}" for name in names}
        write_distribution(tmp_path / "site", "processors", GROUP, points, PROCESSORS)
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.delitem(sys.modules, "processors", raising=False)
        return processor_classes(EngineSettings(io_processors=io_processors))

    return find


def test_a_processor_is_the_class_that_its_entry_point_names(installed: Callable[..., Any]):
    assert {name: found.__name__ for name, found in installed("whole").items()} == {"whole": "Whole"}


def test_one_that_is_not_for_this_machine_is_left_out_unless_it_is_named(installed: Callable[..., Any], tmp_path: Path):
    assert [*installed("whole", "not_here")] == ["whole"]
    shutil.rmtree(tmp_path / "site")
    with pytest.raises(SettingsInvalid, match="not_here says that it is not for this machine"):
        installed("whole", "not_here", io_processors=("not_here",))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("misspelt", "misspelt does not load: .*Hole"),
        ("failing", "failing does not load: OSError: no licence: mend or uninstall its package"),
        ("without_parse", "without_parse has no parse_data"),
        ("abstract", "abstract is not a class with pre_process and post_process"),
    ],
)
def test_a_processor_that_does_not_load_is_refused_with_the_fix(installed: Callable[..., Any], name: str, said: str):
    with pytest.raises(SettingsInvalid, match=said):
        installed("whole", name)
