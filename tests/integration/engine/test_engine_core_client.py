"""The client beneath AsyncLLM, on a stand-in for vLLM's core that does what a real one seldom does."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from consumer.records import EngineInput, InputRejected, Pooling
from schemas.errors import ErrorCode

if TYPE_CHECKING:  # importing vLLM takes seconds, and collecting the tests must not
    from consumer.adapters.vllm_clients import EngineCoreClient

ONE = EngineInput([101, 7592, 102], Pooling.CLASSIFY)
TOO_LARGE = 99_999


class Core:
    """Takes requests, and gives the outputs, or the exception, that a test puts into it."""

    def __init__(self) -> None:
        from vllm.v1.engine import EngineCoreOutputs  # noqa: PLC0415 - imports vLLM
        from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder  # noqa: PLC0415 - imports vLLM

        self.requests: list[Any] = []
        self.aborted: list[str] = []
        self.decoder = MsgpackDecoder(EngineCoreOutputs)
        self._encode, self._outputs_of = MsgpackEncoder().encode, EngineCoreOutputs
        self.outputs: asyncio.Queue[Any] = asyncio.Queue()
        self._sent = asyncio.Semaphore(0)
        self._gave = False

    async def add_request_async(self, request: Any) -> None:
        self.requests.append(request)
        self._sent.release()

    async def abort_requests_async(self, ids: list[str]) -> None:
        self.aborted += ids

    async def get_output_async(self) -> Any:
        if self._gave:
            self.outputs.task_done()
        given = await self.outputs.get()
        self._gave = True
        if isinstance(given, Exception):
            raise given
        return self.decoder.decode(self._encode(self._outputs_of(outputs=given)))

    async def until_sent(self, count: int) -> list[str]:
        """Ids of all requests, once there are so many more."""
        for _ in range(count):
            await self._sent.acquire()
        return [one.request_id for one in self.requests]


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
async def client(core: Core) -> EngineCoreClient:
    return client_of(core)


def client_of(core: Core) -> EngineCoreClient:
    """In a running event loop."""
    from vllm.v1.engine import EngineCoreRequest  # noqa: PLC0415 - imports vLLM

    from consumer.adapters.vllm_clients import EngineCoreClient  # noqa: PLC0415 - imports vLLM

    def process_inputs(request_id: str, prompt: Any, params: Any, *, supported_tasks: Any) -> Any:
        if TOO_LARGE in prompt["prompt_token_ids"]:
            raise ValueError("out of vocabulary")
        return EngineCoreRequest(request_id, prompt["prompt_token_ids"], None, None, params, 0.0, None, None, None)

    llm: Any = SimpleNamespace(
        engine_core=core, input_processor=SimpleNamespace(process_inputs=process_inputs), output_handler=None
    )
    return EngineCoreClient(llm, ("classify",))


def output(request_id: str, *numbers: float, finish_reason: str = "stop") -> Any:
    import torch  # noqa: PLC0415 - seconds
    from vllm.v1.engine import EngineCoreOutput, FinishReason  # noqa: PLC0415 - imports vLLM

    computed = torch.tensor(numbers) if numbers else None
    reason = FinishReason[finish_reason.upper()]
    return EngineCoreOutput(request_id, [], pooling_output=computed, finish_reason=reason)


async def test_outputs_in_any_order_and_of_several_micro_batches_find_their_places(
    core: Core, client: EngineCoreClient
):
    first = asyncio.create_task(client.score([ONE, ONE], []))
    second = asyncio.create_task(client.score([ONE], []))
    a, b, c = await core.until_sent(3)
    core.outputs.put_nowait([output(c, 3.0), output(b, 2.0), output("another's", 9.0)])
    core.outputs.put_nowait([output(a, 1.0)])
    np.testing.assert_array_equal(await first, [[1.0], [2.0]])
    np.testing.assert_array_equal(await second, [[3.0]])
    assert client.unfinished() == 0


async def test_what_the_engine_ends_without_numbers_or_with_wrong_ones_is_that_inputs_outcome(
    core: Core, client: EngineCoreClient
):
    scoring = asyncio.create_task(client.score([ONE] * 3, []))
    a, b, c = await core.until_sent(3)
    core.outputs.put_nowait([output(a, finish_reason="error"), output(b, float("nan")), output(c, 0.5)])
    ended, wrong, good = await scoring
    assert isinstance(ended, InputRejected)
    assert (ended.code, ended.message) == (ErrorCode.ENGINE_REJECTED, "the engine gave no numbers: error")
    assert isinstance(wrong, InputRejected)
    assert wrong.code is ErrorCode.NON_FINITE
    np.testing.assert_array_equal(good, [0.5])


async def test_outputs_of_different_shapes_keep_theirs(core: Core, client: EngineCoreClient):
    scoring = asyncio.create_task(client.score([ONE, ONE], []))
    a, b = await core.until_sent(2)
    core.outputs.put_nowait([output(a, 1.0, 2.0), output(b, 3.0)])
    assert [np.shape(one) for one in await scoring] == [(2,), (1,)]


async def test_aborted_is_only_what_has_not_come_back(core: Core, client: EngineCoreClient):
    entered: list[str] = []
    scoring = asyncio.create_task(client.score([ONE] * 3, entered))
    a, b, c = await core.until_sent(3)
    core.outputs.put_nowait([output(b, 1.0)])
    await core.outputs.join()
    scoring.cancel()
    await client.abort(entered)
    core.outputs.put_nowait([output(a, 1.0)])
    assert core.aborted == [a, c]
    assert client.unfinished() == 0


async def test_when_outputs_cannot_be_read_any_more_everyone_who_waits_learns_it_and_who_comes_later(
    core: Core, client: EngineCoreClient
):
    *waiting, given_up = [asyncio.create_task(client.score([ONE, ONE], [])) for _ in range(3)]
    await core.until_sent(6)
    core.outputs.put_nowait(ValueError("not msgpack"))
    given_up.cancel()
    for one in waiting:
        with pytest.raises(ValueError, match="not msgpack"):
            await one
    with pytest.raises(ValueError, match="not msgpack"):
        await client.score([ONE], [])
    assert client.unfinished() == 0
    assert len(core.requests) == 6


async def test_vllm_completes_the_parameters_once_per_kind(core: Core, client: EngineCoreClient):
    pairs = [EngineInput([101, n, 102, n, 102], Pooling.CLASSIFY, second_segment_start=3) for n in range(3)]
    scoring = asyncio.create_task(client.score([*pairs, ONE], []))
    await core.until_sent(4)
    scoring.cancel()
    assert len({id(one.pooling_params) for one in core.requests}) == 2
    assert [one.prompt_token_ids for one in core.requests] == [*(one.token_ids for one in pairs), ONE.token_ids]
    assert len({one.request_id for one in core.requests}) == 4


async def test_what_vllm_refuses_of_one_is_not_refused_of_the_next_of_its_kind(core: Core, client: EngineCoreClient):
    scoring = asyncio.create_task(client.score([EngineInput([TOO_LARGE], Pooling.CLASSIFY), ONE], []))
    (sent,) = await core.until_sent(1)
    core.outputs.put_nowait([output(sent, 1.0)])
    refused, good = await scoring
    assert isinstance(refused, InputRejected)
    assert refused.code is ErrorCode.ENGINE_REJECTED
    np.testing.assert_array_equal(good, [1.0])


async def test_who_still_sends_when_outputs_end_learns_it_and_asyncio_has_nothing_to_log(
    core: Core, caplog: pytest.LogCaptureFixture
):
    client = client_of(core)
    scoring = asyncio.create_task(client.score([ONE] * 320, []))
    await core.until_sent(1)
    core.outputs.put_nowait(ValueError("not msgpack"))
    with pytest.raises(ValueError, match="not msgpack"):
        await scoring
    assert 0 < len(core.requests) < 320
    del client, scoring
    gc.collect()
    assert "never retrieved" not in caplog.text
