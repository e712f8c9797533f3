"""IO processors as people write them, on vLLM's own classes, without an engine."""

# ruff: noqa: PLC0415 -- importing vLLM takes seconds, and collecting the tests must not

from typing import Any

import numpy as np
import pytest

from consumer.errors import RecordRejected
from consumer.hooks import Hooks

USABLE_TOKENS, MAX_PROMPTS = 8, 3


class OneTokenPerCharacter:
    """What a processor's texts are rendered with."""

    @property
    def default_cmpl_tok_params(self) -> Any:
        from vllm.renderers.params import TokenizeParams

        return TokenizeParams(max_total_tokens=USABLE_TOKENS)

    def render_cmpl(self, prompts: Any, params: Any) -> Any:
        assert params.max_total_tokens is None
        return [{"type": "token", "prompt_token_ids": [ord(one) for one in prompt["prompt"]]} for prompt in prompts]


def processor_on(plugin: Any, timeout_seconds: float = 60.0) -> Any:
    """A VllmProcessor on a plugin."""
    from consumer.adapters.vllm_processor import VllmProcessor

    return VllmProcessor(plugin, OneTokenPerCharacter(), Hooks(timeout_seconds), USABLE_TOKENS, MAX_PROMPTS)


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
