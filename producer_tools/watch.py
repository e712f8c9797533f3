"""Follow the results topic, one line per result."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from producer_tools.connections.kafka import Brokers
from producer_tools.console import stdout_console, write_lines
from producer_tools.coordinates import header
from producer_tools.kafka import follow, open_reader, spans_of
from producer_tools.rendering import one_line
from schemas import headers as names
from schemas.wire import parse_result


class StartAt(StrEnum):
    """Where following begins."""

    BEGINNING = "beginning"
    END = "end"


class Selection(StrEnum):
    """Which results are shown."""

    ALL = "all"
    FAILED = "failed"


class ResultRecord(Protocol):
    """What is looked at of a record of the results topic."""

    value: bytes
    headers: tuple[tuple[str, bytes], ...]


async def watch(
    *,
    brokers: Brokers,
    topic: str,
    start_at: StartAt,
    selection: Selection,
    count: int | None,
    show: Callable[[bytes], None],
) -> None:
    """Call `show` with each selected result, `count` times or for ever."""
    async with open_reader(brokers) as reader:
        spans = await spans_of(reader, topic)
        starts = {
            partition: span.start if start_at is StartAt.BEGINNING else span.end for partition, span in spans.items()
        }
        shown = 0
        async for records in follow(reader, starts):
            for record in records:
                if selection is Selection.ALL or _failed(record):
                    show(record.value)
                    shown += 1
                    if shown == count:
                        return


def as_line() -> Callable[[bytes], None]:
    """Shows a result as one line for people, cut to the terminal's width."""
    console = stdout_console()

    def show(value: bytes) -> None:
        try:
            console.print(one_line(parse_result(value)))
        except ValueError as unreadable:
            console.print(f"{unreadable} ({len(value)} bytes)", style="red")

    return show


def as_json(value: bytes) -> None:
    """Shows the result's bytes."""
    write_lines(value)


def _failed(record: ResultRecord) -> bool:
    """Whether the request failed as a whole, or one of its items did."""
    if header(record.headers, names.STATUS) == "error":
        return True
    try:
        return bool(parse_result(record.value).failed)
    except ValueError:
        return True
