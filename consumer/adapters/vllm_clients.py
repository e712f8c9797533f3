"""Two ways for requests into vLLM's engine and their outputs back: through AsyncLLM, or the client beneath it.

AsyncLLM is vLLM's public interface. Per request it validates, deep-copies the parameters, and keeps a state and a queue
of its own. The client beneath only encodes, sends and receives, at less than half of the CPU; but vLLM may change it
with any release, which is why the worker compares both at every start (vllm_self_test.py).

Outputs have one reader: whichever client is open. Ids of requests are made here and never the records' own: those may
come twice, and a second attempt must not meet the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, Self

import torch

from consumer.adapters.vllm_decoding import Numbers, keep_numbers_as_they_came
from consumer.adapters.vllm_outputs import engine_outputs
from consumer.adapters.vllm_versions import REFUSALS, AsyncLLM, copy_request, output_problem, params_of, sender_of
from consumer.records import CustomPooling, EngineInput, EngineOutput, InputRejected, Pooling, Step
from consumer.sections import EngineClient
from schemas.errors import ErrorCode

_ENTERED_AT_ONCE = 32
"""Sequences handed over before other tasks get their turn: 1 to 3 ms of the event loop."""
_MESSAGE_CHARACTERS = 300

Collector = Any
"""vLLM's RequestOutputCollector: `get_nowait()` or `await get()` gives the one output of a sequence."""


WatchSteps = Callable[[Step], None]


def nobody(_step: Step) -> None:
    """Watches until somebody does."""


class Client(Protocol):
    """A way into the engine. Token ids have been checked before."""

    kind: EngineClient

    async def score(self, inputs: Sequence[EngineInput | InputRejected], entered: list[str]) -> list[EngineOutput]:
        """One outcome per input, in their order. `entered` gets each request's id before anything of it can fail.

        Raises whatever vLLM raises.
        """

    async def abort(self, entered: Sequence[str]) -> None:
        """Take out of the engine what of these requests has not come back."""

    def unfinished(self) -> int:
        """Requests that have entered and have not come back."""

    def watch_steps(self, watch: WatchSteps) -> None:
        """Call `watch` with each of the engine's steps, if they can be told apart."""

    async def close(self) -> None:
        """Stop reading outputs. Nothing may be in flight."""


class AsyncLLMClient:
    """vLLM's public calls, with a collector per sequence."""

    kind = EngineClient.ASYNC_LLM

    def __init__(self, llm: AsyncLLM) -> None:
        self._llm = llm
        self._attempts = count()

    @classmethod
    async def open(cls, llm: AsyncLLM) -> Self:
        """AsyncLLM starts its own reader of outputs with its first request."""
        return cls(llm)

    async def score(self, inputs: Sequence[EngineInput | InputRejected], entered: list[str]) -> list[EngineOutput]:
        """See Client."""
        pending = []
        for number, one in enumerate(inputs, start=1):
            pending.append(one if isinstance(one, InputRejected) else await self._enter(one, entered))
            if number % _ENTERED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return engine_outputs([one if isinstance(one, InputRejected) else await _read(one) for one in pending])

    async def abort(self, entered: Sequence[str]) -> None:
        """See Client. What nobody reads, or entered half-way, would stay in vLLM's books for ever."""
        await self._llm.abort(entered)

    def unfinished(self) -> int:
        """See Client."""
        return int(self._llm.output_processor.get_num_unfinished_requests())

    def watch_steps(self, watch: WatchSteps) -> None:
        """See Client. Collectors do not say with which others they were filled."""

    async def close(self) -> None:
        """See Client."""
        reader, self._llm.output_handler = self._llm.output_handler, None
        if reader is not None:
            reader.cancel()
            await asyncio.wait((reader,))

    async def _enter(self, one: EngineInput, entered: list[str]) -> Collector | InputRejected:
        attempt = str(next(self._attempts))
        entered.append(attempt)
        try:
            return await self._llm.add_request(attempt, _prompt(one), params_of(one))
        except REFUSALS as refusal:
            await self._llm.abort(attempt)
            return _rejected(refusal)


async def _read(collector: Collector) -> torch.Tensor | InputRejected:
    output = collector.get_nowait() or await collector.get()
    if problem := output_problem(output):
        return _rejected(problem)
    data: torch.Tensor = output.outputs.data
    return data


@dataclass(slots=True, eq=False)
class _MicroBatch:
    """What is to come back together."""

    computed: list[Any]
    missing: int
    complete: asyncio.Future[None]


class EngineCoreClient:
    """The calls beneath AsyncLLM: it encodes and sends requests, and one task of ours takes all outputs."""

    kind = EngineClient.ENGINE_CORE

    def __init__(self, llm: AsyncLLM, supported_tasks: Any) -> None:
        core = llm.engine_core
        # Looked up now: a release that lacks one of them is to show it before the first record.
        self._enter, self._abort, self._next_outputs = (
            sender_of(core),
            core.abort_requests_async,
            core.get_output_async,
        )
        self._restore_tensors = keep_numbers_as_they_came(core)
        self._process_inputs = llm.input_processor.process_inputs
        self._supported_tasks = supported_tasks
        self._attempts = count()
        self._templates: dict[tuple[Pooling, int | None], Any] = {}
        self._waiting: dict[str, tuple[_MicroBatch, int, int]] = {}
        self._waiting_tokens = 0
        self._watch: WatchSteps = nobody
        self._broken: Exception | None = None
        self._llm = llm
        # In the place of AsyncLLM's own reader: so it starts none, counts as dead when ours has ended, and cancels ours
        # when it is shut down.
        self._reader = llm.output_handler = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, llm: AsyncLLM) -> Self:
        """Raises AttributeError or ImportError where a release of vLLM lacks what it needs."""
        return cls(llm, await llm.get_supported_tasks())

    async def score(self, inputs: Sequence[EngineInput | InputRejected], entered: list[str]) -> list[EngineOutput]:
        """See Client."""
        batch = _MicroBatch(list(inputs), len(inputs), asyncio.get_running_loop().create_future())
        now = time.time()
        for place, one in enumerate(inputs):
            if isinstance(one, InputRejected):
                self._put(batch, place, one)
            elif isinstance(request := self._request(one, now), InputRejected):
                self._put(batch, place, request)
            else:
                entered.append(request.request_id)
                await self._send(request, batch, place, one.computed_tokens)
            if place % _ENTERED_AT_ONCE == _ENTERED_AT_ONCE - 1:
                await asyncio.sleep(0)
        if inputs:
            await batch.complete
        return engine_outputs(batch.computed)

    async def abort(self, entered: Sequence[str]) -> None:
        """See Client. What the engine sends of them in spite of it is not waited for any more."""
        await self._abort([attempt for attempt in entered if self._leave(attempt)])

    def unfinished(self) -> int:
        """See Client."""
        return len(self._waiting)

    def watch_steps(self, watch: WatchSteps) -> None:
        """See Client. The outputs of one step come together."""
        self._watch = watch

    async def close(self) -> None:
        """See Client."""
        self._llm.output_handler = None
        self._reader.cancel()
        await asyncio.wait((self._reader,))
        self._restore_tensors()

    async def _send(self, request: Any, batch: _MicroBatch, place: int, tokens: int) -> None:
        if self._broken:
            raise self._broken
        self._waiting[request.request_id] = batch, place, tokens
        self._waiting_tokens += tokens
        await self._enter(request)

    def _request(self, one: EngineInput, now: float) -> Any | InputRejected:
        """Parameters are checked and completed by vLLM, for each kind of ours once."""
        if isinstance(one.pooling, CustomPooling):
            processed = self._processed(one)
        else:
            kind = one.pooling, one.second_segment_start
            processed = self._templates.get(kind)
            if processed is None:
                processed = self._processed(one)
                # Not a refusal: it may be of this one's tokens, and not of all of its kind.
                if not isinstance(processed, InputRejected):
                    self._templates[kind] = processed
        if isinstance(processed, InputRejected):
            return processed
        return copy_request(processed, str(next(self._attempts)), one.token_ids, now)

    def _processed(self, one: EngineInput) -> Any | InputRejected:
        try:
            return self._process_inputs("", _prompt(one), params_of(one), supported_tasks=self._supported_tasks)
        except REFUSALS as refusal:
            return _rejected(refusal)

    async def _read(self) -> None:
        try:
            while True:
                outputs = await self._next_outputs()
                sequences, tokens = len(self._waiting), self._waiting_tokens
                for output in outputs.outputs:
                    # Not there: it was aborted when it had been computed already.
                    if place := self._leave(output.request_id):
                        self._put(*place, _numbers_of(output))
                left, left_tokens = len(self._waiting), self._waiting_tokens
                if left < sequences:
                    self._watch(Step(sequences - left, tokens - left_tokens, left, left_tokens))
        except Exception as broken:  # noqa: BLE001 -- whatever it is, nothing comes back any more, and who waits is told
            self._broken = broken
            for batch in {batch for batch, *_ in self._waiting.values()}:
                if not batch.complete.done():  # Cancelled, and not yet taken out.
                    batch.complete.set_exception(broken)
                    batch.complete.exception()  # Seen: who still sends is told by `_send`, and never looks here.
            self._waiting.clear()

    def _leave(self, attempt: str) -> tuple[_MicroBatch, int] | None:
        """Where its output belongs; None when it is not waited for."""
        if attempt not in self._waiting:
            return None
        batch, place, tokens = self._waiting.pop(attempt)
        self._waiting_tokens -= tokens
        return batch, place

    @staticmethod
    def _put(batch: _MicroBatch, place: int, computed: Numbers | torch.Tensor | InputRejected) -> None:
        batch.computed[place] = computed
        batch.missing -= 1
        if not batch.missing and not batch.complete.done():
            batch.complete.set_result(None)


CLIENTS: Mapping[EngineClient, type[AsyncLLMClient | EngineCoreClient]] = {
    client.kind: client for client in (AsyncLLMClient, EngineCoreClient)
}


def _numbers_of(output: Any) -> Numbers | torch.Tensor | InputRejected:
    """Of an EngineCoreOutput, a pooling request's only one. Without numbers, the engine has ended the request."""
    numbers: Numbers | torch.Tensor | None = output.pooling_output
    if numbers is None:
        return _rejected(f"the engine gave no numbers: {output.finish_reason}")
    return _rejected("the engine gave no numbers") if 0 in numbers.shape else numbers


def _prompt(one: EngineInput) -> Any:
    """As vLLM's own renderer gives it."""
    return {"type": "token", "prompt_token_ids": one.token_ids}


def _rejected(problem: object) -> InputRejected:
    return InputRejected(ErrorCode.ENGINE_REJECTED, str(problem)[:_MESSAGE_CHARACTERS])
