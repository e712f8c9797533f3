"""What travels along the path, one type per stage boundary.

SourceRecord -> (decode, prepare) -> Prepared -> (engine) -> EngineOutput -> (shape) -> Outcome -> Chunk's messages
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from schemas.errors import ErrorCode
from schemas.request import ScoringRequest
from schemas.wire import SealedResult

Headers = tuple[tuple[str, bytes | None], ...]
"""Kafka headers in their order; keys may repeat, values may be None."""


class TopicPartition(NamedTuple):
    """One partition of one topic. Equal to aiokafka's tuple of the same name."""

    topic: str
    partition: int


class Fetched(NamedTuple):
    """What the broker said of a partition in its last answer to a fetch.

    `answered_ms`: when; to be compared with others of its kind only. `readable`: the offset after the last record that
    may be read, for transactions the last stable one. `end`: the offset after the last record of all; what is between
    the two stands in, or behind, a transaction that is open.
    """

    answered_ms: int
    readable: int
    end: int


class Standing(Enum):
    """Where a worker stands with its consumer group, as far as its client knows.

    OUTSIDE: not joined yet, or the group's coordinator does not answer. REBALANCING: from the revocation of the old
    assignment to the new one, the first one included.
    """

    OUTSIDE = "outside"
    REBALANCING = "rebalancing"
    MEMBER = "member"


class ModelIdentity(NamedTuple):
    """What a result says of the model that computed it; two results compare only when `fingerprint` is equal."""

    name: str
    revision: str | None
    fingerprint: str


class SourceRecord(NamedTuple):
    """One record as Kafka gave it. `timestamp_ms` is the record's Kafka timestamp, Unix milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    unread: str | None = None
    """Why its value was not read; then nothing but its place, and perhaps its key, is known."""
    misnamed: str | None = None
    """What is wrong with its headers: names that are not UTF-8, whose bytes are escaped here."""

    @property
    def size_bytes(self) -> int:
        """Key, value and headers as held in memory."""
        return len(self.key or b"") + len(self.value or b"") + _bytes_of(self.headers)


class TokenSequence(NamedTuple):
    """Token ids of one sequence with its special tokens.

    `second_segment_start`: index of the first token of segment 1 where the model has token_type_ids, else None.
    `text_span`: where the text's own tokens stand in it, [start, stop), if it is one text.
    """

    ids: list[int]
    second_segment_start: int | None = None
    truncated: bool = False
    text_span: tuple[int, int] = (0, 0)


class Pooling(Enum):
    """What the engine computes for one sequence; the values are vLLM's pooling tasks."""

    EMBED = "embed"
    CLASSIFY = "classify"
    TOKEN_EMBED = "token_embed"  # noqa: S105 - a task
    TOKEN_CLASSIFY = "token_classify"  # noqa: S105


@dataclass(frozen=True, slots=True)
class CustomPooling:
    """What an IO processor asks the engine for. `params`: vLLM's PoolingParams, looked at by adapters only."""

    params: Any


class EngineInput(NamedTuple):
    """One sequence for the engine: what vLLM calls a request.

    `token_ids`: plain ints, 0 <= id < vocabulary, at most the model's usable length, never empty.
    `second_segment_start`: index of the first token of segment 1, for models with token_type_ids, else None.
    `shared_prefix_tokens`: how many at its beginning the engine has already, from the sequence before it.
    """

    token_ids: list[int]
    pooling: Pooling | CustomPooling
    second_segment_start: int | None = None
    shared_prefix_tokens: int = 0

    @property
    def computed_tokens(self) -> int:
        """What the engine has to compute."""
        return len(self.token_ids) - self.shared_prefix_tokens


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the engine gave back, and what was left in it then. Tokens without shared prefixes."""

    sequences: int
    tokens: int
    left_sequences: int
    left_tokens: int


@dataclass(frozen=True, slots=True)
class InputRejected:
    """The engine's refusal of one sequence, or numbers that are not numbers. Its neighbours are not affected."""

    code: ErrorCode
    message: str


EngineOutput = np.ndarray | InputRejected
"""float32, shape [hidden] (EMBED), [labels] (CLASSIFY), [tokens, size] (TOKEN_EMBED), [tokens, labels]
(TOKEN_CLASSIFY): raw, without activation or normalisation.

For a CustomPooling whatever the model gives, floating numbers as float32.
"""


def deadline_unix_ms(request: ScoringRequest, record: SourceRecord) -> int | None:
    """When the answer stops being wanted: as given, or counted from the record's Kafka timestamp."""
    if request.timeout_ms is not None:
        return record.timestamp_ms + request.timeout_ms
    return request.deadline_unix_ms


@dataclass(slots=True)
class Prepared:
    """A request ready for the engine.

    `inputs`: the sequences, in the order in which they should enter the engine; may be empty if every item failed.
    `item_errors`: index in the request's list -> why this item has no score.
    `plan`: whatever the task's `shape` needs to put outputs back in their places; private to the task.
    `output_bytes`: what the engine's outputs weigh until they are shaped, where that is much.
    """

    request: ScoringRequest
    inputs: list[EngineInput]
    item_errors: dict[int, InputRejected] = field(default_factory=dict)
    truncated: list[int] = field(default_factory=list)
    plan: Any = None
    output_bytes: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens that enter the engine for this request, shared ones counted each time."""
        return sum(len(one.token_ids) for one in self.inputs)

    @property
    def computed_tokens(self) -> int:
        """What the engine has to compute for this request: tokens net of shared prefixes."""
        return sum(one.computed_tokens for one in self.inputs)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record gets an error result; with what the result still has to say. `id` is None: dead letter alone."""

    code: ErrorCode
    message: str
    index: int | None = None
    id: str | None = None
    task: str | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: int | None = None


class Shaped(NamedTuple):
    """A task's answer, before it becomes bytes. `results`: the elements of the contract's `results`, in its order."""

    results: list[dict[str, Any]]
    scale: str | None


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Later(Generic[_T]):
    """An outcome that somebody else's code has yet to work out; to be awaited on the worker's event loop."""

    work: Callable[[], Awaitable[_T]]


class Message(NamedTuple):
    """One record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class ScoreEntry(NamedTuple):
    """One result for Redis. `value` is the same bytes as on the results topic and starts with status and source."""

    id: str
    value: bytes
    status: str
    ttl_seconds: int
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    force: bool = False


class Outcome(NamedTuple):
    """How one record ended: a result, a dead letter, or both.

    `result` lacks only its timings, known when it is handed over. `code` is None for an answered request.
    """

    result: SealedResult | None
    result_key: bytes | None = None
    result_headers: Headers = ()
    id: str | None = None
    ttl_seconds: int = 0
    dead_letter: Message | None = None
    code: ErrorCode | None = None
    force: bool = False

    @property
    def size_bytes(self) -> int:
        """What it will weigh on the topics, timings estimated."""
        result = self.result.size_bytes if self.result else 0
        dead = len(self.dead_letter.value or b"") if self.dead_letter else 0
        return result + dead + len(self.result_key or b"") + _bytes_of(self.result_headers)


def _bytes_of(headers: Headers) -> int:
    # A loop, because a generator costs more than the sum, and each record has these at three places.
    size_bytes = 0
    for key, value in headers:
        size_bytes += len(key)
        if value:
            size_bytes += len(value)
    return size_bytes
