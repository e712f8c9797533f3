"""At start the engine's faster client has to score as vLLM's public one does; else that one stays, and says why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import pytest_asyncio
import structlog

from consumer.errors import EngineDead, MicroBatchFailed, SettingsInvalid
from consumer.loading import scripted_card
from consumer.records import EngineInput, Pooling
from consumer.sections import EngineClient, EngineSettings
from tests.parity.loaded import Loaded

if TYPE_CHECKING:  # importing vLLM takes seconds, and collecting the tests must not
    from consumer.adapters.vllm_engine import VllmEngine

PAIR = EngineInput([101, 7592, 102, 7592, 102], Pooling.CLASSIFY, second_segment_start=3)


@pytest_asyncio.fixture
async def engine(cross_encoder: Loaded) -> VllmEngine:
    """As it is before the choice."""
    await cross_encoder.engine.use(EngineClient.ASYNC_LLM)
    return cross_encoder.engine


async def choose(engine: VllmEngine, **settings: Any) -> list[str]:
    """Reasons that were told."""
    from consumer.adapters.vllm_self_test import choose_client, score_known  # noqa: PLC0415 - imports vLLM

    wanted = EngineSettings(**settings)
    expected = await score_known(engine, wanted)
    with structlog.testing.capture_logs() as lines:
        await choose_client(engine, wanted, expected)
    return [line["reason"] for line in lines]


async def test_the_faster_client_is_chosen_when_it_scores_alike(engine: VllmEngine):
    assert await choose(engine) == []
    assert engine.client is EngineClient.ENGINE_CORE


async def test_the_public_one_can_be_asked_for(engine: VllmEngine):
    assert await choose(engine, client="async_llm") == []
    assert engine.client is EngineClient.ASYNC_LLM


def without_segments(processed: Any, *changed: Any) -> Any:
    processed.pooling_params.extra_kwargs = None
    return unchanged(processed, *changed)


async def outputs_elsewhere(client: Any) -> None:
    await asyncio.Event().wait()


def another_signature() -> Any:
    raise NotImplementedError


def unchanged(*changed: Any) -> Any:
    from consumer.adapters.vllm_versions import copy_request  # noqa: PLC0415 - imports vLLM

    return copy_request(*changed)


@pytest.mark.parametrize(
    ("name", "as_another_release", "reason"),
    [
        ("copy_request", without_segments, "numbers differ by"),
        ("copy_request", another_signature, "failed: MicroBatchFailed: TypeError: .*another_signature"),
        ("EngineCoreClient._read", outputs_elsewhere, "did not score within 2 s"),
    ],
)
async def test_a_client_that_another_release_has_changed_is_left_for_the_public_one(
    engine: VllmEngine, monkeypatch: pytest.MonkeyPatch, name: str, as_another_release: Any, reason: str
):
    (before,) = await engine.submit([PAIR])
    with monkeypatch.context() as patched:
        patched.setattr(f"consumer.adapters.vllm_clients.{name}", as_another_release)
        (told,) = await choose(engine, hang_seconds=2)
        with pytest.raises(SettingsInvalid, match=rf"engine_core, and .*{reason}.*: set it to auto"):
            await choose(engine, client="engine_core", hang_seconds=2)
    assert re.search(reason, told)
    assert engine.client is EngineClient.ASYNC_LLM
    (after,) = await engine.submit([PAIR])
    np.testing.assert_allclose(before, after, atol=1e-5)
    assert engine.unfinished_sequences == 0


async def test_a_release_without_one_of_the_calls_leaves_the_public_one(
    engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
):
    from consumer.adapters.vllm_clients import EngineCoreClient  # noqa: PLC0415 - imports vLLM

    def lacking(llm: Any) -> Any:
        return llm.engine_core.a_call_that_was_renamed

    monkeypatch.setattr(EngineCoreClient, "open", lacking)
    (told,) = await choose(engine)
    assert "a_call_that_was_renamed" in told
    assert engine.client is EngineClient.ASYNC_LLM
    assert isinstance((await engine.submit([PAIR]))[0], np.ndarray)


async def test_an_engine_that_dies_of_the_comparison_is_started_again_for_the_public_client(
    monkeypatch: pytest.MonkeyPatch,
):
    """Without a model: what counts is which engines are started and stopped."""
    from consumer.adapters import vllm_self_test, vllm_start  # noqa: PLC0415 - imports vLLM

    started, stopped = [], []

    class Engine:
        def __init__(self, settings: EngineSettings) -> None:
            self.client = settings.client
            self.card = scripted_card(settings)
            started.append(self.client)

        async def weights_left_unset(self) -> list[str]:
            return []

        async def submit(self, inputs: Sequence[EngineInput]) -> list[np.ndarray]:
            return [np.ones(1, np.float32) for _ in inputs]

        async def stop(self) -> None:
            stopped.append(self.client)

    async def dies(engine: Any, settings: EngineSettings, expected: Any) -> None:
        if settings.client is not EngineClient.ASYNC_LLM:
            raise vllm_self_test.DiedOfComparison("as another release could")

    monkeypatch.setattr(vllm_start, "_start", lambda settings, card: Engine(settings))
    monkeypatch.setattr(vllm_self_test, "choose_client", dies)
    settings = EngineSettings()
    engine = await vllm_start.start_vllm(settings, scripted_card(settings))
    assert engine.client is EngineClient.ASYNC_LLM
    assert (started, stopped) == ([EngineClient.AUTO, EngineClient.ASYNC_LLM], [EngineClient.AUTO])
    with pytest.raises(EngineDead):
        await vllm_start.start_vllm(EngineSettings(client="engine_core"), scripted_card(settings))
    assert stopped[1:] == [EngineClient.ENGINE_CORE]


@pytest.mark.parametrize("failure", [EngineDead, MicroBatchFailed])
@pytest.mark.parametrize("client", list(EngineClient))
async def test_an_engine_that_fails_when_it_is_first_tried_is_not_running_whichever_client_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, client: EngineClient, failure: type[Exception]
):
    from consumer.adapters import vllm_start  # noqa: PLC0415 - imports vLLM

    events = []

    class Engine:
        card = scripted_card(EngineSettings())

        async def weights_left_unset(self) -> list[str]:
            return []

        async def submit(self, inputs: Sequence[EngineInput]) -> Any:
            events.append("tried")
            raise failure("heads of 16 numbers")

        async def stop(self) -> None:
            events.append("stopped")

    monkeypatch.setattr(vllm_start, "_start", lambda settings, card: Engine())
    with pytest.raises(EngineDead, match=r"came up, and failed when it was tried with .* heads of 16 numbers"):
        await vllm_start.start_vllm(EngineSettings(client=client), Engine.card)
    assert events == ["tried", "stopped"]


@pytest.mark.parametrize(("model", "segments"), [("cross-encoder", {None, 2}), ("embedding", {None})])
def test_a_model_is_compared_on_a_second_segment_only_where_it_scores_pairs(model: str, segments: set):
    from consumer.adapters.vllm_self_test import known_inputs  # noqa: PLC0415 - imports vLLM

    card = scripted_card(EngineSettings(model=model))
    # A BERT embedder's tokenizer makes token_type_ids, too; its engine dies of a request with some.
    assert card.has_segments
    assert {one.second_segment_start for one in known_inputs(card)} == segments
