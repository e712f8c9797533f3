"""The engine from outside: refusals stay with their input, cancelling leaves nothing, Ctrl-C does not reach it."""

import asyncio
import signal

import numpy as np
import psutil
import pytest

from consumer.records import EngineInput, InputRejected, Pooling
from schemas.errors import ErrorCode
from tests.parity.loaded import Loaded

ENGINE_NAMES = ("VLLM::", "EngineCore")

GOOD = EngineInput([101, 7592, 102], Pooling.EMBED)


@pytest.mark.parametrize(
    "ids",
    [[], [101, -1], [101, 30522], [101, 2**63], [101.5, 2.0], [True], [np.int64(5)], ["a"], [101] * 257],
    ids=["empty", "negative", "outside", "huge", "float", "bool", "numpy", "text", "long"],
)
async def test_ids_that_the_engine_must_not_see_are_refused_and_their_neighbours_scored(embedder: Loaded, ids: list):
    before, refused, after = await embedder.engine.submit([GOOD, EngineInput(ids, Pooling.EMBED), GOOD])
    assert isinstance(refused, InputRejected)
    assert refused.code is ErrorCode.ENGINE_REJECTED
    np.testing.assert_array_equal(before, after)
    assert before.shape == (384,)
    await embedder.engine.ping(5)


async def test_what_vllm_itself_refuses_is_that_inputs_outcome(embedder: Loaded):
    good, refused = await embedder.engine.submit([GOOD, EngineInput(GOOD.token_ids, Pooling.CLASSIFY)])
    assert isinstance(good, np.ndarray)
    assert isinstance(refused, InputRejected)
    assert refused.code is ErrorCode.ENGINE_REJECTED
    assert embedder.engine._llm.get_num_unfinished_requests() == 0


async def test_outputs_come_in_the_order_of_the_inputs_whatever_their_length(embedder: Loaded):
    inputs = [EngineInput([101, *[2000 + n] * (1 + n * 7 % 200), 102], Pooling.EMBED) for n in range(100)]
    together = await embedder.engine.submit(inputs)
    for one, output in list(zip(inputs, together, strict=True))[::20]:
        (alone,) = await embedder.engine.submit([one])
        np.testing.assert_allclose(output, alone, atol=1e-5)


async def test_a_cancelled_micro_batch_leaves_nothing_in_the_engine(embedder: Loaded):
    future = embedder.engine.submit([EngineInput([101] * 256, Pooling.EMBED)] * 200)
    other = embedder.engine.submit([GOOD])
    await asyncio.sleep(0)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    assert isinstance((await other)[0], np.ndarray)
    assert embedder.engine._llm.get_num_unfinished_requests() == 0


async def test_an_empty_micro_batch_is_answered(embedder: Loaded):
    assert await embedder.engine.submit([]) == []


async def test_ctrl_c_does_not_reach_the_engines_processes(embedder: Loaded):
    """The terminal sends SIGINT to every process of its group; here to each of the engine's."""
    processes = [child for child in psutil.Process().children(recursive=True) if child.name().startswith(ENGINE_NAMES)]
    assert len(processes) >= 2
    for process in processes:
        process.send_signal(signal.SIGINT)
    await asyncio.sleep(0.5)
    (output,) = await embedder.engine.submit([GOOD])
    assert isinstance(output, np.ndarray)
    await embedder.engine.ping(5)
    assert all(process.is_running() for process in processes)


async def test_the_card_names_the_dtype_that_the_engine_computes_in(embedder: Loaded):
    assert embedder.engine.card.dtype == "float32"
