"""One model with its engine, as the worker has it: the real engine on CPU, in float32."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consumer.adapters.vllm_start import start_vllm
from consumer.interfaces import Task, TextEncoder
from consumer.loading import load_model
from consumer.records import Prepared, Shaped
from consumer.sections import EngineSettings, LimitSettings
from consumer.tasks import tasks_for
from schemas.request import ScoringRequest
from tests.parity.forked import forked_engines

if TYPE_CHECKING:  # importing vLLM takes seconds, and collecting the tests must not
    from consumer.adapters.vllm_engine import VllmEngine


@dataclass(frozen=True)
class Loaded:
    """Everything between a request and its answer, without Kafka."""

    engine: VllmEngine
    tokenizer: TextEncoder
    tasks: dict[str, Task]

    def prepare(self, request: ScoringRequest) -> Prepared:
        task = self.tasks[request.task]
        prepared = task.prepare(request, self.tokenizer.encode(task.parse(request)))
        assert isinstance(prepared, Prepared)
        return prepared

    async def answer(self, request: ScoringRequest) -> Shaped:
        """The request alone in one micro-batch."""
        prepared = self.prepare(request)
        shaped = self.tasks[request.task].shape(prepared, await self.engine.submit(prepared.inputs))
        assert isinstance(shaped, Shaped)
        return shaped

    async def answer_together(self, requests: Sequence[ScoringRequest]) -> list[Shaped]:
        """All requests at once, each a micro-batch of its own."""
        return list(await asyncio.gather(*(self.answer(request) for request in requests)))


async def load_forked(folder: Path, **settings: Any) -> Loaded:
    """As `load`, and much quicker; forked.py tells the difference."""
    with forked_engines():
        return await load(folder, **settings)


async def load(folder: Path, **settings: Any) -> Loaded:
    """`settings`: of the engine, beside those that make its numbers comparable."""
    # Of the CPU's memory, for a cache that encoders do not use.
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    engine = EngineSettings(
        model=str(folder), dtype="float32", max_num_seqs=64, args={"enforce_eager": True}, **settings
    )
    model = load_model(engine)
    started = await start_vllm(engine, model.card)
    return Loaded(started, model.encoder, dict(tasks_for(started.card, model.encoder, LimitSettings())))
