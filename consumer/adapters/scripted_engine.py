"""An engine without a model: made-up but repeatable scores at a stated speed, for drills and tests.

A document can misbehave on purpose. Each of the words in `WORDS` is one token of its own:
`!reject` is refused by the engine, `!nan` comes back as not-a-number, `!die` kills the engine, `!hold` waits for
`release`, each `!wait` takes a second more, `!fail` fails the whole micro-batch, and `!hang` silences the engine: it
lives, and answers nothing any more. Each `!ponder` keeps the tokenizer for a second, and all that comes behind it.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consumer.errors import EngineDead, MicroBatchFailed
from consumer.interfaces import EncodedText
from consumer.records import EngineInput, EngineOutput, InputRejected, Pooling, Step, TokenSequence
from consumer.sections import EngineSettings
from schemas.errors import ErrorCode

VOCABULARY = 30_000
EMBEDDING_DIMENSIONS = 8
START, SEPARATOR = 1, 2
REJECT, NAN, DIE, HOLD, WAIT, HANG, FAIL = 3, 4, 5, 6, 7, 8, 9
WORDS = {"!reject": REJECT, "!nan": NAN, "!die": DIE, "!hold": HOLD, "!wait": WAIT, "!hang": HANG, "!fail": FAIL}
"""What a text can ask of the engine."""
PONDER = "!ponder"
"""What it can ask of the tokenizer."""
_FIRST_WORD_ID = 10


@dataclass(frozen=True, slots=True)
class Words:
    """Token ids of one text, one per word."""

    ids: list[int]
    offsets: Sequence[tuple[int, int]] = ()


class ScriptedEncoder:
    """A tokenizer that needs no model: a word is a token, its id a checksum."""

    prompt = None
    vectors = None

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Without special tokens. Blocks as long as a text asks for."""
        if ponder_seconds := sum(text.split().count(PONDER) for text in texts):
            time.sleep(ponder_seconds)
        return [Words([_word_id(word) for word in text.split()]) for text in texts]

    def single(self, text: EncodedText, max_tokens: int) -> TokenSequence:
        """[START] text [SEPARATOR]."""
        kept = text.ids[: max_tokens - 2]
        return TokenSequence([START, *kept, SEPARATOR], None, len(kept) < len(text.ids))

    def pair(self, query: EncodedText, document: EncodedText, max_tokens: int) -> TokenSequence:
        """[START] query [SEPARATOR] document [SEPARATOR]. Raises ValueError without room for the document."""
        room = max_tokens - len(query.ids) - 3
        if room < 1:
            raise ValueError("no room for a document")
        kept = document.ids[:room]
        ids = [START, *query.ids, SEPARATOR, *kept, SEPARATOR]
        return TokenSequence(ids, len(query.ids) + 2, len(kept) < len(document.ids))


def _word_id(word: str) -> int:
    return WORDS.get(word) or _FIRST_WORD_ID + zlib.crc32(word.encode()) % (VOCABULARY - _FIRST_WORD_ID)


def scripted_output(one: EngineInput) -> EngineOutput:
    """The output of one sequence: depends on its token ids alone, so that replays agree."""
    if REJECT in one.token_ids:
        return InputRejected(ErrorCode.ENGINE_REJECTED, "the scripted engine refuses this text")
    if NAN in one.token_ids:
        return InputRejected(ErrorCode.NON_FINITE, "the engine returned a number that is not finite")
    seed = zlib.crc32(np.asarray(one.token_ids, dtype=np.uint32).tobytes())
    size = EMBEDDING_DIMENSIONS if one.pooling is Pooling.EMBED else 1
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


@dataclass(slots=True, eq=False)
class _Submitted:
    inputs: Sequence[EngineInput]
    future: asyncio.Future[list[EngineOutput]]
    outputs: list[EngineOutput] = field(default_factory=list)


class ScriptedEngine:
    """Steps like a real engine: a queue, `max_num_seqs` sequences a step, `scripted_seconds_per_step` each."""

    def __init__(self, settings: EngineSettings) -> None:
        self._step_sequences = settings.max_num_seqs
        self._step_seconds = settings.scripted_seconds_per_step
        self._queue: deque[_Submitted] = deque()
        self._held: list[_Submitted] = []
        self._dead = False
        self._hangs = False
        self._work = asyncio.Event()
        self._watch: Callable[[Step], None] = lambda _: None
        self._loop = asyncio.get_running_loop().create_task(self._run())
        self.largest_queue_sequences = 0

    def submit(self, inputs: Sequence[EngineInput]) -> asyncio.Future[list[EngineOutput]]:
        """One micro-batch, one future."""
        future: asyncio.Future[list[EngineOutput]] = asyncio.get_running_loop().create_future()
        submitted = _Submitted(inputs, future)
        if self._dead:
            future.set_exception(EngineDead("the scripted engine is dead"))
        elif any(FAIL in one.token_ids for one in inputs):
            future.set_exception(MicroBatchFailed("the scripted engine cannot compute this"))
        elif any(HOLD in one.token_ids for one in inputs):
            self._held.append(submitted)
        elif wait_seconds := max((one.token_ids.count(WAIT) for one in inputs), default=0):
            self._held.append(submitted)
            asyncio.get_running_loop().call_later(wait_seconds, self._release, submitted)
        else:
            self._enqueue(submitted)
        return future

    @property
    def queued_sequences(self) -> int:
        """Submitted and not yet returned, without the held ones."""
        return sum(len(one.inputs) - len(one.outputs) for one in self._queue)

    def release(self) -> None:
        """Let the held micro-batches go."""
        for submitted in list(self._held):
            self._release(submitted)

    def _release(self, submitted: _Submitted) -> None:
        if submitted in self._held:
            self._held.remove(submitted)
            self._enqueue(submitted)

    def _enqueue(self, submitted: _Submitted) -> None:
        self._queue.append(submitted)
        self.largest_queue_sequences = max(self.largest_queue_sequences, self.queued_sequences)
        self._work.set()

    def watch_steps(self, watch: Callable[[Step], None]) -> None:
        """Each is told when its outputs are there."""
        self._watch = watch

    async def ping(self, timeout_seconds: float) -> None:
        """Raises EngineDead once it died, and when it does not answer in time because it hangs."""
        if self._hangs:
            await asyncio.sleep(timeout_seconds)
            raise EngineDead(f"the scripted engine did not answer in {timeout_seconds:g} s")
        if self._dead:
            raise EngineDead("the scripted engine is dead")

    async def stop(self) -> None:
        """End the stepping; what is still in flight raises EngineDead."""
        self._loop.cancel()
        await asyncio.wait((self._loop,))
        self.die()

    async def _run(self) -> None:
        while not self._dead:
            self._work.clear()
            while self._queue and not self._hangs:
                await asyncio.sleep(self._step_seconds)
                self._step()
            await self._work.wait()

    def _step(self) -> None:
        room = self._step_sequences
        tokens = 0
        while self._queue and room:
            submitted = self._queue[0]
            done = len(submitted.outputs)
            now = submitted.inputs[done : done + room]
            if any(DIE in one.token_ids for one in now):
                self.die()
                return
            if any(HANG in one.token_ids for one in now):
                self._hangs = True
                return
            submitted.outputs.extend(scripted_output(one) for one in now)
            room -= len(now)
            tokens += sum(one.computed_tokens for one in now)
            if len(submitted.outputs) == len(submitted.inputs):
                self._queue.popleft()
                if not submitted.future.done():
                    submitted.future.set_result(submitted.outputs)
        left = [one for submitted in self._queue for one in submitted.inputs[len(submitted.outputs) :]]
        left_tokens = sum(one.computed_tokens for one in left)
        self._watch(Step(self._step_sequences - room, tokens, len(left), left_tokens))

    def die(self) -> None:
        """What an engine's process does when it is killed."""
        self._dead = True
        for submitted in (*self._queue, *self._held):
            if not submitted.future.done():
                submitted.future.set_exception(EngineDead("the scripted engine died"))
        self._queue.clear()
        self._held.clear()


__all__ = ["ScriptedEncoder", "ScriptedEngine", "scripted_output"]
