"""The engine from outside, by either of vLLM's clients: refusals stay with their input, cancelling leaves nothing."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from consumer.errors import MicroBatchFailed
from consumer.records import CustomPooling, EngineInput, InputRejected, Pooling
from consumer.sections import EngineClient
from schemas.errors import ErrorCode
from tests.parity.loaded import Loaded

if TYPE_CHECKING:  # importing vLLM takes seconds, and collecting the tests must not
    from consumer.adapters.vllm_engine import VllmEngine

ENGINE_NAMES = ("VLLM::", "EngineCore")

GOOD = EngineInput([101, 7592, 102], Pooling.EMBED)


@pytest.fixture(params=[EngineClient.ASYNC_LLM, EngineClient.ENGINE_CORE])
async def engine(embedder: Loaded, request: pytest.FixtureRequest) -> VllmEngine:
    await embedder.engine.use(request.param)
    return embedder.engine


@pytest.mark.parametrize(
    "ids",
    [[], [101, -1], [101, 30522], [101, 2**63], [101.5, 2.0], [True], [np.int64(5)], ["a"], [101] * 257],
    ids=["empty", "negative", "outside", "huge", "float", "bool", "numpy", "text", "long"],
)
async def test_ids_that_the_engine_must_not_see_are_refused_and_their_neighbours_scored(engine: VllmEngine, ids: list):
    before, refused, after = await engine.submit([GOOD, EngineInput(ids, Pooling.EMBED), GOOD])
    assert isinstance(refused, InputRejected)
    assert refused.code is ErrorCode.ENGINE_REJECTED
    np.testing.assert_array_equal(before, after)
    assert before.shape == (384,)
    await engine.ping(5)


async def test_what_vllm_itself_refuses_is_that_inputs_outcome(engine: VllmEngine):
    good, refused = await engine.submit([GOOD, EngineInput(GOOD.token_ids, Pooling.CLASSIFY)])
    assert isinstance(good, np.ndarray)
    assert isinstance(refused, InputRejected)
    assert refused.code is ErrorCode.ENGINE_REJECTED
    assert engine.unfinished_sequences == 0


async def test_outputs_come_in_the_order_of_the_inputs_whatever_their_length(engine: VllmEngine):
    inputs = [EngineInput([101, *[2000 + n] * (1 + n * 7 % 200), 102], Pooling.EMBED) for n in range(100)]
    together = await engine.submit(inputs)
    for one, output in list(zip(inputs, together, strict=True))[::20]:
        (alone,) = await engine.submit([one])
        np.testing.assert_allclose(output, alone, atol=1e-5)


async def test_a_cancelled_micro_batch_leaves_nothing_in_the_engine(engine: VllmEngine):
    future = engine.submit([EngineInput([101] * 256, Pooling.EMBED)] * 200)
    other = engine.submit([GOOD])
    await asyncio.sleep(0)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    assert isinstance((await other)[0], np.ndarray)
    assert engine.unfinished_sequences == 0


async def test_an_output_that_comes_after_its_request_was_aborted_disturbs_nobody(engine: VllmEngine):
    """Aborts race with the step that computes: some outputs still come."""
    for _ in range(20):
        future = engine.submit([GOOD] * 8)
        other = engine.submit([GOOD])
        await asyncio.sleep(0.001)
        future.cancel()
        assert isinstance((await other)[0], np.ndarray)
    assert engine.unfinished_sequences == 0


async def test_a_micro_batch_that_cannot_be_sent_fails_alone(engine: VllmEngine, monkeypatch: pytest.MonkeyPatch):
    encode = engine._llm.engine_core.encoder.encode

    def refuse(message: Any) -> Any:
        if isinstance(message, list):  # of ids, to be aborted
            return encode(message)
        raise TypeError("not serializable")

    other = engine.submit([GOOD])
    await asyncio.sleep(0)
    with monkeypatch.context() as patched:
        patched.setattr(engine._llm.engine_core.encoder, "encode", refuse)
        with pytest.raises(MicroBatchFailed, match="not serializable"):
            await engine.submit([GOOD, GOOD])
    assert isinstance((await other)[0], np.ndarray)
    assert isinstance((await engine.submit([GOOD]))[0], np.ndarray)
    assert engine.unfinished_sequences == 0


async def test_what_an_io_processor_asks_for_is_checked_by_vllm_and_computed(engine: VllmEngine):
    from vllm.pooling_params import PoolingParams  # noqa: PLC0415 - imports vLLM

    asked = [PoolingParams(task="token_embed"), PoolingParams(task="embed", dimensions=5), PoolingParams(task="embed")]
    vectors, refused, vector = await engine.submit([EngineInput(GOOD.token_ids, CustomPooling(one)) for one in asked])
    assert np.shape(vectors) == (3, 384)
    assert isinstance(refused, InputRejected)
    assert "dimensions" in refused.message
    (raw,) = await engine.submit([GOOD])
    np.testing.assert_allclose(vector, raw / np.linalg.norm(raw), atol=1e-5)


async def test_an_empty_micro_batch_is_answered(engine: VllmEngine):
    assert await engine.submit([]) == []


async def test_ctrl_c_does_not_reach_the_engines_processes(engine: VllmEngine):
    """The terminal sends SIGINT to every process of its group; here to each of the engine's.

    Those of forked engines, which other tests may have open, have another parent, and do not start as a worker's do.
    """
    spawned = [child for child in psutil.Process().children() if child.name().startswith(ENGINE_NAMES)]
    family = [one for core in spawned for one in (core, *core.children(recursive=True))]
    processes = [one for one in family if one.name().startswith(ENGINE_NAMES)]
    assert len(processes) >= 2
    for process in processes:
        process.send_signal(signal.SIGINT)
    await asyncio.sleep(0.5)
    (output,) = await engine.submit([GOOD])
    assert isinstance(output, np.ndarray)
    await engine.ping(5)
    assert all(process.is_running() for process in processes)


async def test_the_card_names_the_dtype_that_the_engine_computes_in(engine: VllmEngine):
    assert engine.card.dtype == "float32"
