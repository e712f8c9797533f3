"""Start the engine without stopping the event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from consumer.model.card import ModelCard
from consumer.sections import EngineSettings

if TYPE_CHECKING:
    from consumer.adapters.vllm_engine import VllmEngine


async def start_vllm(settings: EngineSettings, card: ModelCard) -> VllmEngine:
    """The engine, warm. Everything blocking, the import of vLLM included, happens in a thread: health stays served.

    Raises SettingsInvalid for arguments that vLLM refuses, EngineDead when the model does not come up within
    `engine.start_timeout_seconds`.
    """
    return await asyncio.to_thread(_start, settings, card)


def before_import(settings: EngineSettings) -> None:
    """What vLLM reads when it is imported: to be called before that, wherever it happens first."""
    os.environ.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", str(round(settings.start_timeout_seconds)))


def _start(settings: EngineSettings, card: ModelCard) -> VllmEngine:
    before_import(settings)
    from consumer.adapters.vllm_engine import VllmEngine  # noqa: PLC0415 - takes 10 to 25 s

    return VllmEngine.load(settings, card)
