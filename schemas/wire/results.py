"""Results: sealed once, finished with timings at the moment of hand-over, read back by tools."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from schemas.errors import ErrorCode
from schemas.request import SCHEMA_VERSION
from schemas.result import ScoreResult
from schemas.wire.exact_numbers import dump_json

TIMINGS = ("queue", "prepare", "engine", "emit", "total")
"""Names in `timings_ms`, in the order in which they are written."""

_TIMINGS_ROOM_BYTES = 256
"""More than the timings ever take: five numbers of at most 24 characters, a 64-bit integer and the names."""

_MAX_MESSAGE_CHARACTERS = 1000
_MAX_MESSAGE_BYTES = 3500
"""As JSON; keeps `error` below 4 kB."""


class SourceCoordinates(NamedTuple):
    """Where the request stands in Kafka; `timestamp_ms` is the record's Kafka timestamp."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ModelNames(NamedTuple):
    """What the result says of the model that computed it."""

    name: str
    revision: str | None
    fingerprint: str


class SealedResult(NamedTuple):
    """A result's bytes around the place of its timings.

    `head` begins with schema, status and source, all within its first 512 bytes.
    """

    head: bytes
    tail: bytes
    status: str

    @property
    def size_bytes(self) -> int:
        """Never less than what `finish` returns."""
        return len(self.head) + len(self.tail) + _TIMINGS_ROOM_BYTES

    def finish(self, timings: Mapping[str, float], scored_at_unix_ms: int) -> bytes:
        """The result's bytes. `timings`: milliseconds by the names in TIMINGS.

        Raises ValueError when a timing is not finite, KeyError when one is missing.
        """
        rounded = {name: round(timings[name], 3) for name in TIMINGS}
        if not all(map(math.isfinite, rounded.values())):
            raise ValueError("a timing is not a finite number")
        middle = orjson.dumps({"timings_ms": rounded, "scored_at_unix_ms": scored_at_unix_ms})
        return b"".join((self.head, middle[1:-1], self.tail))


def seal_result(
    *,
    status: str,
    source: tuple[str, int, int, int],
    id: str,  # noqa: A002  the wire's name
    task: str | None,
    model: tuple[str, str | None, str],
    scale: str | None,
    results: Sequence[Mapping[str, Any]],
    failed: Sequence[int],
    truncated: Sequence[int],
    prompt_tokens: int | None,
    error: tuple[ErrorCode, str, int | None] | None,
    metadata: Mapping[str, Any] | None,
    dropped: Sequence[str],
) -> SealedResult:
    """Everything of a result but its timings, as bytes, in the contract's order.

    `source` is (topic, partition, offset, timestamp_ms), `model` is (name, revision, fingerprint), `error` is
    (code, message, index). Numbers in `results` may be numpy float32 scalars or C-contiguous arrays: they are written
    as the shortest decimal that reads back to the same float32.

    Raises ValueError when a number in `results` or `metadata` is not finite: JSON has no such number, and a null
    would read as "no score".
    """
    head: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "status": status,
        "source": dict(zip(("topic", "partition", "offset", "timestamp_ms"), source, strict=True)),
        "id": id,
    }
    if task is not None:
        head["task"] = task
    head["model"] = dict(zip(("name", "revision", "fingerprint"), model, strict=True))
    head["scale"] = scale
    head["results"] = orjson.Fragment(_dump_finite(list(results), "results"))
    head["failed"] = list(failed)
    head["truncated"] = list(truncated)
    if prompt_tokens is not None:
        head["usage"] = {"prompt_tokens": prompt_tokens}

    tail: dict[str, Any] = {}
    if error is not None:
        tail["error"] = _error_body(*error)
    if metadata is not None:
        tail["metadata"] = orjson.Fragment(_dump_finite(dict(metadata), "metadata"))
    if dropped:
        tail["dropped"] = list(dropped)

    closing = orjson.dumps(tail)
    return SealedResult(
        head=orjson.dumps(head)[:-1] + b",",
        tail=b"," + closing[1:] if tail else b"}",
        status=status,
    )


def parse_result(value: bytes) -> ScoreResult:
    """Read a result. Raises ValueError when it is not one; the text says where, without the value."""
    try:
        return ScoreResult.model_validate(orjson.loads(value))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the value"
        raise ValueError(f"not a result: {where}: {first['msg']}") from None
    except orjson.JSONDecodeError as unreadable:
        raise ValueError(f"not a result: {unreadable.msg}") from None


def _error_body(code: ErrorCode, message: str, index: int | None) -> dict[str, Any]:
    # An exception's text may carry lone surrogates, which have no UTF-8.
    text = message[:_MAX_MESSAGE_CHARACTERS].encode("utf-8", "replace").decode()
    if len(orjson.dumps(text)) > _MAX_MESSAGE_BYTES:
        text = text[: _MAX_MESSAGE_CHARACTERS // 2]  # six bytes a character at most, as \u0000
    body: dict[str, Any] = {"code": code, "message": text}
    if index is not None:
        body["index"] = index
    body["retryable"] = code.retryable
    return body


def _dump_finite(value: Any, name: str) -> bytes:
    text = dump_json(value)
    # orjson writes nan and inf as null: only where that word occurs is a look at every number worth its time.
    if b"null" in text:
        _require_finite(value, name)
    return text


def _require_finite(value: Any, path: str) -> None:
    if isinstance(value, Mapping):
        for key, one in value.items():
            _require_finite(one, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            _require_finite(one, f"{path}[{index}]")
    elif hasattr(value, "tolist"):  # numpy's scalars and arrays, without importing numpy
        _require_finite(value.tolist(), path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} is not a finite number")
