"""When the engine's process dies, everyone who waits learns it at once."""

import asyncio
from pathlib import Path

import psutil
import pytest

from consumer.errors import EngineDead
from consumer.records import EngineInput, Pooling
from consumer.sections import EngineClient
from tests.parity.loaded import load_forked


@pytest.mark.parametrize("client", [EngineClient.ASYNC_LLM, EngineClient.ENGINE_CORE])
async def test_a_killed_engine_fails_what_is_in_flight_the_ping_and_what_comes_later(
    minilm_classifier: Path, client: EngineClient
):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    loaded = await load_forked(minilm_classifier, client=client)
    inputs = [EngineInput([101] * 512, Pooling.CLASSIFY)] * 100
    in_flight = [loaded.engine.submit(inputs) for _ in range(3)]
    await asyncio.sleep(0.1)
    started = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    (core,) = [child for child in started if "EngineCore" in child.name()]
    core.kill()
    async with asyncio.timeout(30):
        for future in in_flight:
            with pytest.raises(EngineDead):
                await future
        with pytest.raises(EngineDead):
            await loaded.engine.ping(10)
        with pytest.raises(EngineDead):
            await loaded.engine.submit(inputs[:1])
    await loaded.engine.stop()
