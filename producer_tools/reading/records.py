"""Records as Kafka writes them (format 2), decoded with patience: a fault in one field leaves the others readable."""

from __future__ import annotations

from typing import NamedTuple

from producer_tools.reading.codecs import Unpackable

_MOST_VARINT_BITS = 63
_NO_HEADERS = "the headers cannot be read"


Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record that the client's own code would not read. `timestamp`: Unix milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    unread: str | None = None
    """Why its value was not read."""
    misnamed: str | None = None
    """What is wrong with its headers."""

    @property
    def timestamp_type(self) -> None:
        """Not told."""

    @property
    def checksum(self) -> None:
        """There is none for a single record."""


class Stamps(NamedTuple):
    """What a batch says of all its records. `per_record`: 1, or 0 where one timestamp holds for all."""

    base_offset: int
    base_ms: int
    per_record: int


def place_of(head: bytes, stamps: Stamps, unread: str) -> Record:
    """The place of a record, less its length, that is not read; `unread`: why. Its key, if that is in `head`."""
    delta_ms, at = varint(head, 1)
    delta, at = varint(head, at)
    key_bytes, at = varint(head, at)
    key = head[at : at + key_bytes] if 0 <= key_bytes <= len(head) - at else None
    return Record(stamps.base_offset + delta, stamps.base_ms + delta_ms * stamps.per_record, key, unread=unread)


def record_of(record: memoryview, stamps: Stamps) -> Record:
    """A record, less its length. Raises IndexError or Unpackable when its place, key or value cannot be read."""
    delta_ms, at = varint(record, 1)
    delta, at = varint(record, at)
    key, at = _nullable(record, at)
    value, at = _nullable(record, at)
    headers, misnamed = _headers(record, at)
    timestamp = stamps.base_ms + delta_ms * stamps.per_record
    return Record(stamps.base_offset + delta, timestamp, key, value, headers, misnamed=misnamed)


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number and where it ends. Raises IndexError when it is cut, Unpackable for what is none."""
    byte = data[at]
    at += 1
    number = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > _MOST_VARINT_BITS:
            raise Unpackable("a number is too long")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at


def _nullable(record: memoryview, at: int) -> tuple[bytes | None, int]:
    """A key or a value, and where it ends."""
    size, at = varint(record, at)
    if size < 0:
        return None, at
    if at + size > len(record):
        raise Unpackable("a field is longer than its record")
    return bytes(record[at : at + size]), at + size


def _headers(record: memoryview, at: int) -> tuple[tuple[Header, ...], str | None]:
    """The headers, and what is wrong with them. A name's bytes that are not UTF-8 are escaped with a backslash."""
    headers: list[Header] = []
    wrong = None
    try:
        count, at = varint(record, at)
        if count < 0:
            return (), _NO_HEADERS
        for number in range(count):
            name, at = _nullable(record, at)
            value, at = _nullable(record, at)
            if name is None:
                wrong = wrong or f"the header at index {number} has no name"
            try:
                text = (name or b"").decode()
            except UnicodeDecodeError:
                text = (name or b"").decode("utf-8", "backslashreplace")
                wrong = wrong or f"the name of the header at index {number} is not UTF-8; its bytes are escaped here"
            headers.append((text, value))
    except (IndexError, Unpackable):
        return tuple(headers), _NO_HEADERS
    return tuple(headers), wrong
