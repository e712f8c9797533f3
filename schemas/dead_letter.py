"""Dead letters: the original record, untouched, with headers that say why it has no score; and the way back.

A dead letter's own headers come after the original's and begin with `scorestream-error-code`. A caller may have sent
headers of the same names: what stands before the last `scorestream-error-code` is the caller's, and says nothing.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from schemas.errors import ErrorCode
from schemas.headers import (
    ID,
    REPLAY_OF,
    RESERVED_PREFIX,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TOPIC,
    Header,
    headers_size_bytes,
)

ERROR_CODE = "scorestream-error-code"
ERROR_MESSAGE = "scorestream-error-message"
SOURCE_TIMESTAMP = "scorestream-source-timestamp"
GROUP = "scorestream-group"
ATTEMPTS = "scorestream-attempts"
WORKER_VERSION = "scorestream-worker-version"
NULL_VALUE = "scorestream-null-value"
"""`1`: the original had neither key nor value, which the client cannot send; this value is empty instead."""
VALUE_SHA256 = "scorestream-value-sha256"
"""Only on a stub, as hexadecimal digits: the original was too large for the topic, fetch it by its coordinates."""
VALUE_BYTES = "scorestream-value-bytes"
"""Only on a stub: the original value's size."""
VALUE_UNREAD = "scorestream-value-unread"
"""`1`, only on a stub: the worker did not read the original's value, fetch it by its coordinates."""

_BATCH_OVERHEAD_BYTES = 61 + 64
"""A batch of one record without its key, value and headers: the batch header, and room for the record's own fields."""
_HEADER_OVERHEAD_BYTES = 10
"""The two length fields of one header at their longest."""


class Reason(NamedTuple):
    """Why a record became a dead letter, and where it stood."""

    code: ErrorCode
    message: str
    id: str | None
    """The request's, if it could be read."""
    source_topic: str
    source_partition: int
    source_offset: int
    source_timestamp_ms: int
    group: str
    attempts: int
    worker_version: str


@dataclass(frozen=True, slots=True)
class Record:
    """What is produced to Kafka."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def size_bytes(self) -> int:
        """Not less than the uncompressed batch of this one record, to compare with max.message.bytes."""
        overhead = _BATCH_OVERHEAD_BYTES + _HEADER_OVERHEAD_BYTES * len(self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers_size_bytes(self.headers) + overhead


class NotReplayable(ValueError):
    """This dead letter does not hold what it takes to send the request again."""


def dead_letter(
    key: bytes | None, value: bytes | None, headers: Iterable[Header], reason: Reason, *, max_bytes: int
) -> Record:
    """The dead letter of a record; a stub when the original does not fit into `max_bytes` (max.message.bytes).

    Raises ValueError when not even a stub fits, which cannot be with 4096 bytes or more.
    """
    marks: tuple[Header, ...] = ((NULL_VALUE, b"1"),) if key is None and value is None else ()
    whole = Record(
        key=key,
        value=b"" if key is None and value is None else value,
        headers=(*headers, *_reason_headers(reason), *marks),
    )
    if whole.size_bytes <= max_bytes:
        return whole
    value = value or b""
    fingerprint: tuple[Header, ...] = (
        (VALUE_SHA256, hashlib.sha256(value).hexdigest().encode()),
        (VALUE_BYTES, str(len(value)).encode()),
    )
    return _stub(key, fingerprint, reason, max_bytes)


def unread_dead_letter(key: bytes | None, reason: Reason, *, max_bytes: int) -> Record:
    """The dead letter of a record whose value was not read: a stub. Raises ValueError as `dead_letter`."""
    return _stub(key, ((VALUE_UNREAD, b"1"),), reason, max_bytes)


def replayed(key: bytes | None, value: bytes | None, headers: Iterable[Header]) -> Record:
    """A dead letter as the request it was. Raises NotReplayable for stubs and for records that were null."""
    headers = tuple(headers)
    known = own_headers(headers)
    if VALUE_SHA256 in known or VALUE_UNREAD in known:
        raise NotReplayable("a stub holds no request: fetch the original by its source topic, partition and offset")
    if NULL_VALUE in known or value is None:
        raise NotReplayable("the original had no value")
    missing = [name for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET) if name not in known]
    if missing:
        raise NotReplayable(f"not a dead letter: no header {missing[0]}")
    origin = f"{known[SOURCE_TOPIC]}/{known[SOURCE_PARTITION]}/{known[SOURCE_OFFSET]}"
    carried = tuple(header for header in headers if not header[0].startswith(RESERVED_PREFIX))
    return Record(key, value, (*carried, (REPLAY_OF, origin.encode())))


def own_headers(headers: Iterable[Header]) -> dict[str, str]:
    """What the worker says in a dead letter's headers, by name, as text; not what the caller says there."""
    headers = tuple(headers)
    begins = max((place for place, (name, _) in enumerate(headers) if name == ERROR_CODE), default=len(headers))
    return {name: (text or b"").decode("utf-8", "replace") for name, text in headers[begins:]}


def _reason_headers(reason: Reason) -> tuple[Header, ...]:
    named = ((ID, reason.id.encode()),) if reason.id is not None else ()
    return (
        # The first, see own_headers.
        (ERROR_CODE, reason.code.encode()),
        (ERROR_MESSAGE, reason.message.encode("utf-8", "replace")),
        *named,
        (SOURCE_TOPIC, reason.source_topic.encode()),
        (SOURCE_PARTITION, str(reason.source_partition).encode()),
        (SOURCE_OFFSET, str(reason.source_offset).encode()),
        (SOURCE_TIMESTAMP, str(reason.source_timestamp_ms).encode()),
        (GROUP, reason.group.encode()),
        (ATTEMPTS, str(reason.attempts).encode()),
        (WORKER_VERSION, reason.worker_version.encode()),
    )


def _stub(key: bytes | None, marks: tuple[Header, ...], reason: Reason, max_bytes: int) -> Record:
    # What can be looked up by the coordinates goes first: the key, then the message's words, then the id.
    short = reason._replace(message="")
    for kept_key, kept_reason in ((key, reason), (None, reason), (None, short), (None, short._replace(id=None))):
        stub = Record(kept_key, b"", (*_reason_headers(kept_reason), *marks))
        if stub.size_bytes <= max_bytes:
            return stub
    raise ValueError(f"a dead letter does not fit into {max_bytes} bytes: raise the topic's max.message.bytes")
