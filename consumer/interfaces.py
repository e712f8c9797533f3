"""The ports of the worker: what the path needs from the world. Adapters implement them, fakes too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from consumer.records import (
    EngineInput,
    EngineOutput,
    Fetched,
    Later,
    Message,
    Prepared,
    ScoreEntry,
    Shaped,
    SourceRecord,
    Step,
    TokenSequence,
    TopicPartition,
)
from schemas.request import ScoringRequest

Receive = Callable[[TopicPartition, Sequence[SourceRecord], int], None]
"""(partition, records, next position); called with no await since the client's answer (delivery rule 1)."""


class RecordSource(Protocol):
    """A membership in the consumer group."""

    async def join(
        self,
        assigned: Callable[[frozenset[TopicPartition]], Awaitable[None]],
        revoked: Callable[[frozenset[TopicPartition]], Awaitable[None]],
    ) -> None:
        """Join the group. `assigned` starts before the first record of the new assignment can be received.

        `revoked` is awaited before the partitions go to their next owner; it keeps its own deadline.
        """

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions owned now."""

    def counted_in(self) -> bool:
        """Whether the group counts this worker in, as far as it has told; a commit can only be refused when not."""

    def last_fetch(self, partition: TopicPartition) -> Fetched | None:
        """What the broker last said of a partition; None until it has answered in this assignment, or not owned."""

    @property
    def skipped_records(self) -> int:
        """Records that retention removed before they were read, in offsets, since the start."""

    async def fetch(self, room: Mapping[TopicPartition, int], receive: Receive, wait_seconds: float) -> int:
        """Ask each partition for at most `room` records and hand them to `receive`; returns how many came.

        `room` changes with what is received: it is looked up for each partition just before that one is asked, in its
        order. Waits up to `wait_seconds` when there is nothing. `receive` is also called, with no records, for a
        partition whose position moved over markers or compacted records. Never cancel it.
        """

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset, None when there is none."""

    async def notes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """The metadata of the group's committed offsets; empty where there is none. Raises DependencyUnavailable."""

    async def commit(
        self, offsets: Mapping[TopicPartition, int], notes: Mapping[TopicPartition, str] | None = None
    ) -> None:
        """Commit offsets, a partition's note as its metadata.

        Raises PartitionLost when the group refused, DependencyUnavailable when it may go again.
        """

    async def leave(self) -> None:
        """Leave the group and close; has its own deadline, never raises."""


class ResultWriter(Protocol):
    """The results topic."""

    async def write(self, partition: int, messages: Sequence[Message]) -> None:
        """One batch, acknowledged as a whole and in order. Raises DependencyUnavailable: send the same again."""


class DeadLetterWriter(Protocol):
    """The dead-letter topic."""

    async def write(self, messages: Sequence[Message]) -> None:
        """All acknowledged. Raises DependencyUnavailable: send the same again."""


class ScoreStore(Protocol):
    """The results cache, Redis."""

    async def write(self, entries: Sequence[ScoreEntry]) -> int:
        """Write what the fence allows and publish; returns how many writes the fence refused.

        Raises DependencyUnavailable; the same entries may then be written again. Raises SettingsInvalid when the store
        does not take this worker's credentials.
        """


class ScoringEngine(Protocol):
    """The pooling engine, in this process. Takes micro-batches, never single records."""

    def submit(self, inputs: Sequence[EngineInput]) -> asyncio.Future[list[EngineOutput]]:
        """One micro-batch; one future with one outcome per input, in the inputs' order.

        The future raises EngineDead, or MicroBatchFailed when the engine lives but failed on these inputs together. A
        refusal of one input is its outcome, not an exception.
        """

    def watch_steps(self, watch: Callable[[Step], None]) -> None:
        """Call `watch` with each step from now on; an engine that cannot tell its steps never does."""

    async def ping(self, timeout_seconds: float) -> None:
        """A round trip through the engine's own loop. Raises EngineDead when it does not come back."""

    async def stop(self) -> None:
        """Stop the engine's processes. What is in flight raises EngineDead."""


class EncodedText(Protocol):
    """Tokens of one text, without special tokens."""

    @property
    def ids(self) -> list[int]:
        """Token ids."""

    @property
    def offsets(self) -> Sequence[tuple[int, int]]:
        """Of each token the code points of the text that it stands for, [start, end); empty where nobody asks."""


class PairPrompt(Protocol):
    """The prompt of a decoder reranker, in the pieces that are tokenised apart.

    A prompt's ids are head_ids, those of the document_text, and suffix_ids.
    """

    @property
    def suffix_ids(self) -> list[int]:
        """Ids with which every prompt ends."""

    @property
    def takes_instruction(self) -> bool:
        """Whether it has a place for one."""

    def head_texts(self, instruction: str, query: str) -> list[str]:
        """What is to be tokenised once per request."""

    def head_ids(self, texts: Sequence[list[int]]) -> list[int]:
        """The ids with which every prompt of a request begins; `texts`: ids of each of head_texts()."""

    def document_text(self, instruction: str, query: str, document: str) -> str:
        """What is to be tokenised for one document."""

    def own_tokens(self, instruction: str, query: str, ids: Sequence[int]) -> tuple[int, int]:
        """How many of a document_text's ids are the prompt's: before and after the document."""

    def cut(self, instruction: str, query: str, document: str, max_tokens: int) -> list[int]:
        """Ids of the document_text of a beginning of the document, at most so many; empty when none of it fits."""


class VectorPlaces(Protocol):
    """The sequences of a late-interaction model."""

    def query(self, ids: list[int]) -> TokenSequence:
        """A query's sequence, marked and filled up. Raises ValueError when it is too long: a query is never cut."""

    def document(self, ids: list[int], max_tokens: int) -> TokenSequence:
        """A document's sequence, marked, cut at the right to `max_tokens` in all."""

    def counted(self, ids: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which vectors of a document count, [tokens]."""


class TextEncoder(Protocol):
    """The model's tokenizer. Used from one thread at a time, outside the event loop."""

    @property
    def vectors(self) -> VectorPlaces | None:
        """The sequences of a late-interaction model; None for other models."""

    @property
    def prompt(self) -> PairPrompt | None:
        """The prompt of a decoder reranker; None for other models."""

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Tokenise a batch of texts, without special tokens; control tokens in a text are text."""

    def single(self, text: EncodedText, max_tokens: int) -> TokenSequence:
        """One text with the model's special tokens, cut at the right to `max_tokens` in all."""

    def pair(self, query: EncodedText, document: EncodedText, max_tokens: int) -> TokenSequence:
        """A pair with the model's special tokens; the query is kept whole, the document cut at the right.

        Raises ValueError when query and special tokens leave no room for one token of the document.
        """


class Task(Protocol):
    """One task on one model, in the shape of an IO processor: parse, prepare, shape. Pure and synchronous.

    Where somebody else's code has to run, which may be slow, `prepare` and `shape` return what to await instead.
    """

    def parse(self, request: ScoringRequest) -> list[str]:
        """The texts to tokenise, in the order `prepare` wants them. Raises RecordRejected."""

    def prepare(self, request: ScoringRequest, texts: Sequence[EncodedText]) -> Prepared | Later[Prepared]:
        """Sequences for the engine. Raises RecordRejected."""

    def shape(self, prepared: Prepared, outputs: Sequence[EngineOutput]) -> Shaped | Later[Shaped]:
        """The contract's results, one output per input of `prepared`."""


class Attempt(Protocol):
    """One request in the hands of an IO processor. Dropped, whatever the reason, it leaves nothing in the processor."""

    @property
    def inputs(self) -> list[EngineInput]:
        """Sequences for the engine, at least one."""


class Processor(Protocol):
    """An IO processor of somebody else's, for the loaded model. Its own exceptions are raised as they are."""

    async def begin(self, data: Any) -> Attempt:
        """What the processor makes of a request's `data`.

        Raises RecordRejected for data that it refuses or that no engine takes, HookOverran when it does not return.
        """

    async def finish(self, attempt: Any, outputs: Sequence[np.ndarray]) -> Any:
        """The answer as JSON values, from one output per input of the attempt. Raises HookOverran."""
