"""The real engine on CPU in float32, one per model: the embedder's spawned as a worker does it, the others forked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.engine.compared import Compared, start
from tests.parity.loaded import Loaded, load, load_forked


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("vllm")
            # The first test of a model also pays for the engine's start: a minute, several on a busy machine.
            item.add_marker(pytest.mark.timeout(900))


@pytest_asyncio.fixture(scope="session")
async def embedder(minilm_embed: Path) -> AsyncIterator[Loaded]:
    loaded = await load(minilm_embed)
    yield loaded
    await loaded.engine.stop()


@pytest_asyncio.fixture(scope="session")
async def cross_encoder(minilm_cross_encoder: Path) -> AsyncIterator[Loaded]:
    loaded = await load_forked(minilm_cross_encoder)
    yield loaded
    await loaded.engine.stop()


@pytest_asyncio.fixture(scope="session")
async def classifier(minilm_classifier: Path) -> AsyncIterator[Loaded]:
    loaded = await load_forked(minilm_classifier)
    yield loaded
    await loaded.engine.stop()


@pytest_asyncio.fixture(scope="module")
async def compared(request: pytest.FixtureRequest) -> AsyncIterator[Compared]:
    """The kind that a module names: `pytest.mark.parametrize("compared", NAMES, indirect=True, scope="module")`."""
    found = await start(request.param)
    yield found
    await found.loaded.engine.stop()
