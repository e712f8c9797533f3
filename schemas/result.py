"""Results of version 1 for readers: open models, which keep fields they do not know.

Unknown values of `task`, `scale` and `error.code` are accepted: a later worker may send them.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Open(BaseModel):
    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )


class Source(_Open):
    """The request's place in Kafka; topic, partition and offset are the deduplication key."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """The request record's Kafka timestamp, Unix milliseconds."""


class ModelIdentity(_Open):
    """What computed the scores. Two results compare only when `fingerprint` is equal."""

    name: str
    revision: str | None = None
    fingerprint: str
    """Hash of everything that changes scores: weights, dtype, quantisation, template, usable length, pooling."""


class ItemError(_Open):
    """Why one item has no value."""

    code: str
    """A code of `schemas.errors.ErrorCode`, or one of a later worker."""
    message: str


class ErrorBody(ItemError):
    """Why the whole request has no answer."""

    index: int | None = None
    """The item at fault, if it is one item's fault."""
    retryable: bool
    """Whether the same request may be answered later."""


class Label(_Open):
    """One class and its score."""

    label: str
    score: float


class TokenLabels(_Open):
    """One token of a text, special ones left out, and its classes."""

    start: int
    """Of the text's code points, the first for which the token stands."""
    end: int
    """And the first behind them."""
    labels: list[Label]
    """Best first."""


class ResultItem(_Open):
    """One item's answer: exactly one of `error` and its task's value."""

    index: int
    """Position in the request's list: read it, do not zip by position."""
    id: str | None = None
    """The document's id, if it had one."""
    error: ItemError | None = None
    score: float | None = None
    """rerank, score: on the result's `scale`, a float32."""
    document: str | None = None
    """rerank with `return_documents`: the document's text."""
    labels: list[Label] | None = None
    """classify: best first."""
    tokens: list[TokenLabels] | None = None
    """classify with a model that labels tokens: in the text's order, without what was cut off."""
    embedding: list[float] | str | None = None
    """embed: float32 numbers, or base64 of little-endian float32."""
    data: Any = None
    """plugin: the processor's."""


class Usage(_Open):
    """What the request cost."""

    prompt_tokens: int
    """Tokens that entered the engine."""


class Timings(_Open):
    """Milliseconds on a monotonic clock."""

    queue: float
    """Waiting for admission."""
    prepare: float
    """Template, truncation, tokens."""
    engine: float
    """In the engine."""
    emit: float
    """Waiting for earlier requests of the partition."""
    total: float
    """From receipt to hand-over."""


class ScoreResult(_Open):
    """A result, from the results topic or from Redis: the same bytes."""

    schema_version: int = Field(alias="schema")
    status: str
    """`ok`, or `error` when nothing could be answered."""
    source: Source
    id: str
    """The request's."""
    task: str | None = None
    """Absent when the request's could not be read."""
    model: ModelIdentity
    scale: str | None = None
    """`sigmoid`, `logit`, `softmax`, `cosine`, `maxsim`, or null where there is no score."""
    results: list[ResultItem]
    """rerank: best first, ties by index, failed items last; other tasks: in the request's order."""
    failed: list[int]
    """Indices of items with an error."""
    truncated: list[int]
    """Indices of items that were cut to fit the model."""
    usage: Usage | None = None
    timings_ms: Timings
    scored_at_unix_ms: int
    error: ErrorBody | None = None
    """Present when `status` is `error`."""
    metadata: dict[str, Any] | None = None
    """The request's."""
    dropped: list[str] | None = None
    """What an error result left out of the request's in order to fit: first `metadata`, then `headers`, then `key`.

    Headers and key are the record's: a result without its key stands on its partition all the same.
    """
