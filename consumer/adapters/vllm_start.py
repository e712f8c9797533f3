"""Start the engine without stopping the event loop."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import structlog

from consumer.model.card import ModelCard
from consumer.sections import EngineClient, EngineSettings

if TYPE_CHECKING:
    from consumer.adapters.vllm_engine import VllmEngine

log = structlog.get_logger()


async def start_vllm(settings: EngineSettings, card: ModelCard) -> VllmEngine:
    """The engine, warm. Everything blocking, the import of vLLM included, happens in a thread: health stays served.

    Raises SettingsInvalid for arguments that vLLM refuses and for a model without all its weights, EngineDead when the
    model does not come up within `engine.start_timeout_seconds`, or comes up and does not score.
    """
    engine = await asyncio.to_thread(_start, settings, card)
    # They import vLLM, which the thread has done.
    from consumer.adapters.vllm_self_test import (  # noqa: PLC0415
        DiedOfComparison,
        check_loaded,
        choose_client,
        score_known,
    )

    try:
        await check_loaded(engine)
        await choose_client(engine, settings, await score_known(engine, settings))
    except DiedOfComparison as death:
        await engine.stop()
        if settings.client is not EngineClient.AUTO:
            raise
        log.warning("the engine died when its clients were compared, starting another", reason=str(death))
        return await start_vllm(settings.model_copy(update={"client": EngineClient.ASYNC_LLM}), card)
    except BaseException:
        await engine.stop()
        raise
    log.info("engine started", client=engine.client.value, dtype=engine.card.dtype)
    return engine


def before_import(settings: EngineSettings) -> None:
    """What vLLM reads when it is imported: to be called before that, wherever it happens first."""
    os.environ.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", str(round(settings.start_timeout_seconds)))


def try_engine(settings: EngineSettings, card: ModelCard) -> str | None:
    """What an engine would run on, by vLLM's own configuration of it, which is then dropped. Blocking, for seconds.

    None where vLLM sees nothing here to run on. Raises SettingsInvalid for what it refuses.
    """
    before_import(settings)
    from consumer.adapters.vllm_versions import VERSION, device_type, engine_config  # noqa: PLC0415 - takes 10 to 25 s

    if not device_type():
        return None
    config = engine_config(settings, card)
    return f"vLLM {VERSION}, {str(config.model_config.dtype).removeprefix('torch.')} on {device_type()}"


def _start(settings: EngineSettings, card: ModelCard) -> VllmEngine:
    before_import(settings)
    from consumer.adapters.vllm_engine import VllmEngine  # noqa: PLC0415 - takes 10 to 25 s

    return VllmEngine.load(settings, card)
