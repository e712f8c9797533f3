"""vLLM without a pipeline: as fast as it goes, and one request at a time. What the pipeline is measured against."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

import uvloop
from vllm import LLM

from consumer.adapters.vllm_versions import AsyncLLM, engine_arguments, engine_config, params_of
from consumer.model.card import ModelCard
from consumer.records import EngineInput
from consumer.sections import EngineSettings


class OfflineEngine:
    """vLLM's offline `LLM`: everything in one call, so that its scheduler has all it could wish for."""

    def __init__(self, settings: EngineSettings, card: ModelCard) -> None:
        # The offline class prepares tasks of its own at start, for which it wants a tokenizer; none of them runs here.
        self._llm = LLM(**engine_arguments(settings, card) | {"skip_tokenizer_init": False})
        self.dtype = _name(self._llm.llm_engine.model_config.dtype)

    def score(self, requests: Sequence[Sequence[EngineInput]]) -> Sequence[float]:
        """Run all; no latencies, because nothing waits for a single one."""
        sequences = [one for request in requests for one in request]
        prompts: list[Any] = [{"prompt_token_ids": one.token_ids} for one in sequences]
        params = [params_of(one) for one in sequences]
        self._llm.encode(prompts, pooling_params=params, pooling_task=params[0].task, use_tqdm=False)
        return ()


class LoneEngine:
    """vLLM's AsyncLLM, asked for the next request when the one before is answered."""

    def __init__(self, settings: EngineSettings, card: ModelCard) -> None:
        self._llm = AsyncLLM.from_vllm_config(engine_config(settings, card), disable_log_stats=True)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._names = count()
        self.dtype = _name(self._llm.model_config.dtype)

    def score(self, requests: Sequence[Sequence[EngineInput]]) -> Sequence[float]:
        """Seconds of each request, its sequences together."""
        return self._runner.run(self._score(requests))

    async def _score(self, requests: Sequence[Sequence[EngineInput]]) -> list[float]:
        seconds = []
        for request in requests:
            begun = time.perf_counter()
            await asyncio.gather(*map(self._encode, request))
            seconds.append(time.perf_counter() - begun)
        return seconds

    async def _encode(self, one: EngineInput) -> None:
        prompt: Any = {"type": "token", "prompt_token_ids": one.token_ids}
        async for _output in self._llm.encode(prompt, params_of(one), str(next(self._names))):
            pass


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")
