"""The real engine on CPU in float32: one per model for the whole session, each about a minute to start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from consumer.adapters.vllm_start import start_vllm
from consumer.interfaces import Task
from consumer.model.recognise import recognise
from consumer.records import Prepared, Shaped
from consumer.sections import EngineSettings, LimitSettings
from consumer.tasks import tasks_for
from consumer.tokenization import ModelTokenizer, load_tokenizer
from schemas.request import ScoringRequest

if TYPE_CHECKING:  # importing vLLM takes seconds, and collecting the tests must not
    from consumer.adapters.vllm_engine import VllmEngine


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("vllm")
            # The first test of a model also pays for the engine's start: a minute, several on a busy machine.
            item.add_marker(pytest.mark.timeout(900))


@dataclass(frozen=True)
class Loaded:
    """One model with its engine, as the worker has it."""

    engine: VllmEngine
    tokenizer: ModelTokenizer
    tasks: dict[str, Task]

    def prepare(self, request: ScoringRequest) -> Prepared:
        task = self.tasks[request.task]
        return task.prepare(request, self.tokenizer.encode(task.parse(request)))

    async def answer(self, request: ScoringRequest) -> Shaped:
        """The request alone in one micro-batch."""
        prepared = self.prepare(request)
        return self.tasks[request.task].shape(prepared, await self.engine.submit(prepared.inputs))

    async def answer_together(self, requests: Sequence[ScoringRequest]) -> list[Shaped]:
        """All requests at once, each a micro-batch of its own."""
        return list(await asyncio.gather(*(self.answer(request) for request in requests)))


async def load(folder: Path) -> Loaded:
    # Of the CPU's memory, for a cache that encoders do not use.
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    settings = EngineSettings(model=str(folder), dtype="float32", max_num_seqs=64, args={"enforce_eager": True})
    card = recognise(settings)
    tokenizer = load_tokenizer(folder, has_segments=card.has_segments, lower_case=card.lower_case)
    engine = await start_vllm(settings, card)
    return Loaded(engine, tokenizer, dict(tasks_for(engine.card, tokenizer, LimitSettings())))


@pytest_asyncio.fixture(scope="session")
async def embedder(minilm_embed: Path) -> AsyncIterator[Loaded]:
    loaded = await load(minilm_embed)
    yield loaded
    await loaded.engine.stop()


@pytest_asyncio.fixture(scope="session")
async def cross_encoder(minilm_cross_encoder: Path) -> AsyncIterator[Loaded]:
    loaded = await load(minilm_cross_encoder)
    yield loaded
    await loaded.engine.stop()


@pytest_asyncio.fixture(scope="session")
async def classifier(minilm_classifier: Path) -> AsyncIterator[Loaded]:
    loaded = await load(minilm_classifier)
    yield loaded
    await loaded.engine.stop()
