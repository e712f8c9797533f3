"""Which request a result or a dead letter belongs to: the deduplication key of the wire contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas import headers as names


class Coordinates(NamedTuple):
    """A request's place in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """`topic/partition/offset`."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def header(headers: Iterable[tuple[str, bytes | None]], name: str) -> str | None:
    """The last header of that name as text: the product writes its own after the caller's. None without one."""
    found = None
    for key, value in headers:
        if key == name and value is not None:
            found = value.decode("utf-8", "replace")
    return found


def source_of(headers: Iterable[tuple[str, bytes | None]]) -> Coordinates | None:
    """The source coordinates in the headers of a result or dead letter; None where they are missing or unreadable."""
    own = list(headers)
    topic = header(own, names.SOURCE_TOPIC)
    partition = header(own, names.SOURCE_PARTITION)
    offset = header(own, names.SOURCE_OFFSET)
    if topic is None or partition is None or offset is None or not (partition.isdigit() and offset.isdigit()):
        return None
    return Coordinates(topic, int(partition), int(offset))
