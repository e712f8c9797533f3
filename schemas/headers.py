"""Kafka headers of results, and which of the caller's headers travel on.

Header values are bytes; the ones added here are UTF-8 text. Keys may repeat and values may be null: what is carried
keeps its bytes, its order and its duplicates.
"""

from collections.abc import Iterable

from schemas.request import SCHEMA_VERSION

Header = tuple[str, bytes | None]

RESERVED_PREFIX = "scorestream-"
"""Callers' headers with this prefix are not carried to results."""

ID = "scorestream-id"
STATUS = "scorestream-status"
SCHEMA = "scorestream-schema"
SOURCE_TOPIC = "scorestream-source-topic"
SOURCE_PARTITION = "scorestream-source-partition"
SOURCE_OFFSET = "scorestream-source-offset"
"""Topic, partition and offset of the request are the deduplication key: keep the first result per source."""

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
"""W3C trace context. The result continues that of a request that is traced; any other is carried as it is."""

REPLAY_OF = "scorestream-replay-of"
"""On a request: the `topic/partition/offset` whose replay it is."""
REPLAY_FORCE = "scorestream-replay-force"
"""On a request: its result overrides the fence of the Redis cache."""

MAX_REQUEST_HEADERS_BYTES = 16 * 1024
"""Of all keys and values of a request's headers."""


class HeadersTooLarge(ValueError):
    """The request's headers exceed MAX_REQUEST_HEADERS_BYTES; the text is fit for the caller (code `schema`)."""


def headers_size_bytes(headers: Iterable[Header]) -> int:
    """Bytes of all keys and values."""
    return sum(len(key.encode()) + len(value or b"") for key, value in headers)


def check_request_headers(headers: Iterable[Header]) -> None:
    """Raises HeadersTooLarge."""
    size_bytes = headers_size_bytes(headers)
    if size_bytes > MAX_REQUEST_HEADERS_BYTES:
        raise HeadersTooLarge(f"the headers have {size_bytes} bytes, {MAX_REQUEST_HEADERS_BYTES} are allowed")


def result_headers(
    caller_headers: Iterable[Header],
    *,
    id: str,  # noqa: A002  the wire's name
    status: str,
    source_topic: str,
    source_partition: int,
    source_offset: int,
) -> tuple[Header, ...]:
    """The caller's headers without the reserved ones, then the result's own."""
    carried = tuple(header for header in caller_headers if not header[0].startswith(RESERVED_PREFIX))
    return (
        *carried,
        (ID, id.encode()),
        (STATUS, status.encode()),
        (SCHEMA, str(SCHEMA_VERSION).encode()),
        (SOURCE_TOPIC, source_topic.encode()),
        (SOURCE_PARTITION, str(source_partition).encode()),
        (SOURCE_OFFSET, str(source_offset).encode()),
    )
