"""Start the engine without stopping the event loop, and out of the terminal's reach."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

from consumer.model_card import ModelCard
from consumer.settings import EngineSettings

if TYPE_CHECKING:
    from consumer.adapters.vllm_engine import VllmEngine


async def start_vllm(settings: EngineSettings, card: ModelCard) -> VllmEngine:
    """The engine, warm. Everything blocking, the import of vLLM included, happens in a thread: health stays served.

    Raises SettingsInvalid for arguments that vLLM refuses, EngineDead when the model does not come up within
    `engine.start_timeout_seconds`.
    """
    return await asyncio.to_thread(_start, settings, card)


def _start(settings: EngineSettings, card: ModelCard) -> VllmEngine:
    # vLLM reads these when it is imported. Results belong to stdout, logs do not; and it reports usage unless told.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", str(round(settings.start_timeout_seconds)))
    from consumer.adapters.vllm_engine import VllmEngine  # noqa: PLC0415 - the import takes 10 to 25 s

    with _children_without_sigint():
        return VllmEngine.load(settings, card)


@contextmanager
def _children_without_sigint() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, which the terminal sends to the whole process group.

    vLLM's engine installs its own handler for SIGINT and would drop what is in flight before our drain has begun. A
    blocked signal stays blocked whatever handler is installed, and a process inherits the mask of the thread that
    starts it; other threads of ours, the main one above all, keep receiving it.
    """
    # Started lazily, multiprocessing's tracker would unblock SIGINT in this thread just before the engine is started.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
