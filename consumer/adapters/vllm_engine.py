"""The pooling engine of vLLM, in this process, in micro-batches: one asyncio task and one future for each."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Annotated, Self

import msgspec

from consumer.adapters.vllm_clients import CLIENTS, AsyncLLMClient, Client, WatchSteps, nobody
from consumer.adapters.vllm_versions import AsyncLLM, EngineDeadError, engine_config
from consumer.errors import EngineDead, MicroBatchFailed
from consumer.model.card import ModelCard
from consumer.records import EngineInput, EngineOutput, InputRejected
from consumer.sections import EngineClient, EngineSettings
from schemas.errors import ErrorCode

_STOP_SECONDS = 30.0
"""For the engine's processes to end by themselves; then they are killed."""


class VllmEngine:
    """A ScoringEngine on AsyncLLM. Built by `load` in any thread, used from one event loop."""

    def __init__(self, llm: AsyncLLM, card: ModelCard) -> None:
        self._llm = llm
        self._client: Client = AsyncLLMClient(llm)
        self._scoring: set[asyncio.Future[list[EngineOutput]]] = set()
        self._stopping = False
        self._watch: WatchSteps = nobody
        cache = llm.vllm_config.cache_config
        self.card = replace(
            card,
            dtype=str(llm.model_config.dtype).removeprefix("torch."),
            prefix_block_tokens=cache.block_size if cache.enable_prefix_caching else 0,
        )
        """The model as it runs: `dtype`, and so the fingerprint, are the engine's own."""
        token_id = Annotated[int, msgspec.Meta(ge=0, lt=card.vocabulary_size)]
        self._acceptable_ids = Annotated[list[token_id], msgspec.Meta(min_length=1, max_length=card.usable_tokens)]
        self.config, self.renderer = llm.vllm_config, llm.renderer
        """vLLM's own, for IO processors."""

    @classmethod
    def load(cls, settings: EngineSettings, card: ModelCard) -> Self:
        """Start the engine's processes and load the model. Blocking, for about a minute.

        Raises SettingsInvalid for arguments that vLLM refuses, EngineDead when the model does not come up.
        """
        config = engine_config(settings, card)
        try:
            with _children_without_sigint():
                return cls(AsyncLLM.from_vllm_config(config, disable_log_stats=True), card)
        except Exception as broken:
            raise EngineDead(f"the engine did not start: {broken}") from broken

    @property
    def client(self) -> EngineClient:
        """By which of vLLM's clients requests enter."""
        return self._client.kind

    async def use(self, client: EngineClient) -> None:
        """Let requests enter by this one from now on. Nothing may be in flight.

        Raises AttributeError where a release of vLLM lacks what it needs; the one before is in use then.
        """
        await self._client.close()
        self._client = await CLIENTS[client].open(self._llm)
        self._client.watch_steps(self._watch)

    @property
    def unfinished_sequences(self) -> int:
        """What has entered and has not come back."""
        return self._client.unfinished()

    def submit(self, inputs: Sequence[EngineInput]) -> asyncio.Future[list[EngineOutput]]:
        """One micro-batch; one future with one outcome per input, in the inputs' order.

        The future raises EngineDead, or MicroBatchFailed for whatever vLLM raises while it lives. A refusal of one
        input is its outcome, not an exception. Cancelling it takes what has not been computed out of the engine.
        """
        scoring = asyncio.ensure_future(self._score(inputs))
        self._scoring.add(scoring)
        scoring.add_done_callback(self._scoring.discard)
        return scoring

    def watch_steps(self, watch: WatchSteps) -> None:
        """Call `watch` with each step from now on, where the client in use tells of them: AsyncLLM does not."""
        self._watch = watch
        self._client.watch_steps(watch)

    async def weights_left_unset(self) -> list[str]:
        """Names, by vLLM, of the parameters that loading the model has not filled (vllm_weights.py).

        Raises whatever vLLM raises where its processes have not watched: they did not load our plugin, or an argument
        of the engine's has it load a model in another way.
        """
        answers = await self._llm.collective_rpc("weights_left_unset")
        if None in answers:
            raise LookupError("vLLM loaded the model in a way that was not watched")
        return sorted({name for names in answers for name in names})

    async def ping(self, timeout_seconds: float) -> None:
        """A round trip through the engine's own loop, which vLLM's check_health() is not. Raises EngineDead."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._llm.is_paused()
        except TimeoutError as silent:
            raise EngineDead(f"the engine did not answer within {timeout_seconds:g} s") from silent
        except Exception as broken:
            raise EngineDead(f"the engine does not answer: {broken}") from broken

    async def stop(self) -> None:
        """Stop the engine's processes. What is still in flight raises EngineDead; vLLM would leave it waiting for ever.

        So it is when the engine died: whoever hears of it first stops it, and may be faster than vLLM's own news.
        """
        self._stopping = True
        for scoring in tuple(self._scoring):
            scoring.cancel()
        await asyncio.to_thread(self._llm.shutdown, timeout=_STOP_SECONDS)

    async def _score(self, inputs: Sequence[EngineInput]) -> list[EngineOutput]:
        entered: list[str] = []
        try:
            return await self._client.score([self._checked(one) for one in inputs], entered)
        except asyncio.CancelledError:
            if self._stopping:
                raise EngineDead("the engine was stopped") from None
            await self._client.abort(entered)
            raise
        except Exception as broken:
            # Whoever reads vLLM's outputs hands its own crash, whatever it is, to everyone who waits.
            if isinstance(broken, EngineDeadError) or self._llm.errored:
                raise EngineDead(f"the engine has died: {broken}") from broken
            await self._client.abort(entered)
            raise MicroBatchFailed(f"{type(broken).__name__}: {broken}") from broken

    def _checked(self, one: EngineInput) -> EngineInput | InputRejected:
        """Keeps from the engine what it must never see.

        A bool or float among the ids kills the engine's input thread without a word, and every later request hangs; a
        negative id is an index into the device's memory on 0.26.
        """
        try:
            # Types and bounds in one pass that is not Python's: 2 us for 60 ids, where set, min and max take 9.
            msgspec.convert(one.token_ids, self._acceptable_ids)
        except msgspec.ValidationError as invalid:
            return InputRejected(ErrorCode.ENGINE_REJECTED, f"not token ids of this model: {invalid}")
        return one


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
