"""Requests of version 1, as strict models: no coercions (1.0 is an integer), no unknown fields, nothing mutable.

Bytes become these models in `schemas.wire.parse_request` only. What a model cannot know stands there: the worker's
limits, what is allowed inside `metadata` and `data`, and that `null` equals absent.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

SCHEMA_VERSION = 1
"""The newest version that this code reads."""

Task = Literal["rerank", "score", "classify", "embed", "plugin"]

EARLIEST_UNIX_MS, LATEST_UNIX_MS = 10**12, 10**13
"""2001 to 2286: a time outside is in another unit, or none."""

_INT64_MAX = 2**63 - 1


def integral(value: object) -> object:
    """1.0 as 1: JSON has one kind of number, and some producers write every number so. All else as it is."""
    return int(value) if type(value) is float and value.is_integer() else value


_Integral = BeforeValidator(integral)
"""Behind the limits of a field: what is written down of them in the schema is the innermost type's."""

Count = Annotated[int, Field(ge=1, le=_INT64_MAX), _Integral]
"""A positive 64-bit integer."""

RequestId = Annotated[
    str,
    Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$"),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 256,
            # Not "only others": `$` matches before a final newline in some dialects of regular expressions.
            "not": {"pattern": "[\\u0000-\\u001f\\u007f-\\u009f]"},
        }
    ),
]
"""1..256 code points without control characters (Unicode category Cc)."""


class _Strict(BaseModel):
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


class Document(_Strict):
    """One text to be scored. On the wire a plain string is the same as `{"text": string}`."""

    id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The caller's name of this document, echoed in its item; need not be unique."""
    text: str
    """The text. One without content tokens is an item error, not an invalid request. Nothing is fetched: a `data:` URI
    is refused with `schema`, and so is a URL alone where it would be compared with a query."""


def _as_document(value: object) -> object:
    return {"text": value} if type(value) is str else value


def _as_documents(value: object) -> object:
    if type(value) is not list:
        return value
    return [{"text": one} if type(one) is str else one for one in value]


def _one_or_many(value: object) -> object:
    return _as_documents(value if type(value) is list else [value])


OneDocument = Annotated[Document, BeforeValidator(_as_document, json_schema_input_type=str | Document)]
# The first bad document ends the check: a thousand bad ones cost no more than one.
Documents = Annotated[
    list[Document],
    Field(min_length=1, fail_fast=True),
    BeforeValidator(_as_documents, json_schema_input_type=Annotated[list[str | Document], Field(min_length=1)]),
]
Inputs = Annotated[
    list[Document],
    Field(min_length=1, fail_fast=True),
    BeforeValidator(
        _one_or_many, json_schema_input_type=str | Document | Annotated[list[str | Document], Field(min_length=1)]
    ),
]


class Request(_Strict):
    """What every task shares."""

    schema_version: Annotated[int, Field(alias="schema", ge=1, le=SCHEMA_VERSION), _Integral] = SCHEMA_VERSION
    """Version of this contract."""
    id: RequestId
    """Names the result. `{...}` in it acts as a Redis hash tag."""
    task: Task
    """What to compute."""
    model: str | None = None
    """Must be one of the worker's served names; absent: whatever this topic's worker serves."""
    deadline_unix_ms: Annotated[int, Field(ge=EARLIEST_UNIX_MS, le=LATEST_UNIX_MS), _Integral] | None = None
    """Answer `expired` instead of entering the engine after this moment, in Unix milliseconds."""
    timeout_ms: Count | None = None
    """The same, counted in milliseconds from the record's Kafka timestamp, which must be one in milliseconds.

    Not together with `deadline_unix_ms`.
    """
    priority: Annotated[int, Field(ge=-100, le=100), _Integral] = 0
    """Order of admission to the engine across partitions, lower is sooner. Results are never reordered."""
    truncate: bool | None = None
    """Cut what is too long (true) or refuse it with `too_long` (false); absent: the worker's setting."""
    ttl_seconds: Count | None = None
    """How long Redis keeps the result; absent: the worker's setting, which also sets the maximum."""
    metadata: dict[str, Any] | None = None
    """The caller's, echoed as equal JSON: at most 4096 bytes serialised, at most 32 levels deep.

    Numbers that no double holds are echoed, too, such as 12345678901234567.89 and 1e-400. Refused are integers beyond
    64 bits and what is larger than any double, such as 1e400.
    """

    @model_validator(mode="after")
    def _one_deadline(self) -> Self:
        if self.deadline_unix_ms is not None and self.timeout_ms is not None:
            raise ValueError("`deadline_unix_ms` and `timeout_ms` are both given: give one")
        return self


class RerankRequest(Request):
    """Order documents by relevance to a query."""

    task: Literal["rerank"]
    query: str
    """What the documents are ranked for."""
    documents: Documents
    """What is ranked: strings, or objects with `text` and an `id` of yours."""
    top_n: Count | None = None
    """Answer only the best; absent: all."""
    return_documents: bool = False
    """Repeat each document's text in its item."""
    instruction: str | None = None
    """Replaces the default instruction of a model that has one."""
    max_tokens_per_doc: Count | None = None
    """Cut each document to this many tokens; absent: to what the model takes."""
    raw_scores: bool = False
    """Scores before the model's activation: `scale` is then `logit`."""


class ScoreRequest(Request):
    """Score one pair."""

    task: Literal["score"]
    query: str
    """The pair's first text."""
    document: OneDocument
    """The pair's second text."""
    instruction: str | None = None
    """Replaces the default instruction of a model that has one."""
    raw_scores: bool = False
    """The score before the model's activation: `scale` is then `logit`."""


class ClassifyRequest(Request):
    """Label texts with the model's classes."""

    task: Literal["classify"]
    inputs: Annotated[Inputs, Field(alias="input")]
    """One text or a list of texts."""
    top_k: Count | None = None
    """Answer only the best labels of each text; absent: all."""
    raw_scores: bool = False
    """Scores before the model's activation: `scale` is then `logit`."""


class EmbedRequest(Request):
    """Turn texts into vectors."""

    task: Literal["embed"]
    inputs: Annotated[Inputs, Field(alias="input")]
    """One text or a list of texts."""
    dimensions: Count | None = None
    """Keep the first dimensions only, for models trained for it; absent, or the vector's whole length: all."""
    normalize: bool = True
    """Scale each vector to length 1, after `dimensions`."""
    role: Literal["query", "document"] | None = None
    """Which of the model's prompts to use; required where the two differ."""
    encoding_format: Literal["float", "base64"] = "float"
    """Vectors as a list of numbers, or as base64 of little-endian float32."""


class PluginRequest(Request):
    """Hand `data` to an IO processor installed in the worker."""

    task: Literal["plugin"]
    processor: Annotated[str, Field(min_length=1)]
    """Name of a `vllm.io_processor_plugins` entry point."""
    data: Any = None
    """Any JSON; its meaning is the processor's, which gets numbers with a fraction or an exponent as doubles."""


ScoringRequest = RerankRequest | ScoreRequest | ClassifyRequest | EmbedRequest | PluginRequest
"""Any request, told apart by `task`."""

REQUEST_MODELS: dict[str, type[ScoringRequest]] = {
    "rerank": RerankRequest,
    "score": ScoreRequest,
    "classify": ClassifyRequest,
    "embed": EmbedRequest,
    "plugin": PluginRequest,
}
"""By the wire name of the task."""
