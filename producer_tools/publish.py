"""Requests from lines of JSON, or made up, to the request topic."""

from __future__ import annotations

import codecs
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from producer_tools.connections.kafka import Brokers
from producer_tools.console import ToolFailure, discard_stdout, say, write_lines
from producer_tools.kafka import Headers, open_publisher
from producer_tools.lines import read_lines
from schemas.request import ScoringRequest
from schemas.wire import RequestLimits, WireError, parse_request

PROGRESS_SECONDS = 1.0


class Outgoing(NamedTuple):
    """One request about to be published. `id` is empty where it was not looked at."""

    id: str
    value: bytes
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Destination:
    """Where requests go. `partition` None: by key, and anywhere without a key."""

    brokers: Brokers
    topic: str
    partition: int | None = None
    headers: Headers = ()


async def publish(requests: AsyncIterator[Outgoing], to: Destination) -> None:
    """Publish every request; each id appears on stdout once the brokers have acknowledged it.

    Raises ToolFailure when a request is refused or not acknowledged; those before it are published.
    """
    started = time.monotonic()
    async with open_publisher(to.brokers, _print_id) as publisher:
        partitions = await publisher.partition_count(to.topic)
        if to.partition is not None and to.partition >= partitions:
            raise ToolFailure(f"{to.topic} has no partition {to.partition}: it has 0 to {partitions - 1}")
        next_report = started + PROGRESS_SECONDS
        try:
            async for request in requests:
                await publisher.send(
                    to.topic,
                    request.value,
                    name=request.id,
                    key=request.key,
                    headers=to.headers,
                    partition=to.partition,
                )
                if time.monotonic() >= next_report:
                    _report(publisher.acknowledged_records, started)
                    next_report = time.monotonic() + PROGRESS_SECONDS
        finally:
            await publisher.flush()
            _report(publisher.acknowledged_records, started)


async def validated(source: BinaryIO, key_field: str) -> AsyncIterator[Outgoing]:
    """The lines of `source`, each checked against the contract. Raises ToolFailure with the line's number."""
    async for number, line in _lines(source):
        try:
            request = parse_request(line, RequestLimits())
        except WireError as refused:
            reason = why_no_request(line) or f"{refused.code}: {refused.message}"
            raise ToolFailure(f"line {number}: {reason}") from None
        yield Outgoing(request.id, line, _key(request, key_field))


def why_no_request(line: bytes) -> str:
    """Where a line is not one JSON object, but the file is JSON in another layout: that, and what changes it.

    Empty where the line is of one request, whatever else is wrong with it.
    """
    text = line.removeprefix(codecs.BOM_UTF8).decode(errors="replace").strip()
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as broken:
        ends_too_early = broken.pos >= len(text) or broken.msg.startswith("Unterminated string")
        layout = "the JSON does not end in this line" if ends_too_early else ""
    else:
        array = "a JSON array stands there" if text.startswith("[") else ""
        layout = array if end == len(text) else "more stands there than one JSON object"
    program = "'.[]'" if text.startswith("[") else "."
    return f"{layout}: write one request a line, as `jq -c {program} FILE` does" if layout else ""


async def unchecked(source: BinaryIO) -> AsyncIterator[Outgoing]:
    """The lines of `source` as they are, without a key."""
    async for _number, line in _lines(source):
        yield Outgoing("", line, None)


async def made_up(requests: Iterator[tuple[str, bytes]]) -> AsyncIterator[Outgoing]:
    """Generated requests, keyed by their ids."""
    for request_id, value in requests:
        yield Outgoing(request_id, value, request_id.encode())


def parse_headers(texts: list[str]) -> Headers:
    """`name=value` texts as Kafka headers. Raises ValueError."""
    headers = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ValueError(f"a header is written name=value, not {text}")
        headers.append((name, value.encode()))
    return headers


def _key(request: ScoringRequest, key_field: str) -> bytes | None:
    """The value at the dotted path `key_field` of the request, as text; None without a path or a value there."""
    if not key_field:
        return None
    value: Any = request.model_dump(by_alias=True)
    for name in key_field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return None if value is None else str(value).encode()


async def _lines(source: BinaryIO) -> AsyncIterator[tuple[int, bytes]]:
    try:
        async for numbered in read_lines(source):
            yield numbered
    except ValueError as refused:
        raise ToolFailure(str(refused)) from None


def _print_id(request_id: str) -> None:
    if not request_id:
        return
    try:
        write_lines(request_id.encode())
    except BrokenPipeError:
        # Nobody reads the ids any more; that is no reason to publish half of the requests.
        discard_stdout()


def _report(records: int, started: float) -> None:
    seconds = time.monotonic() - started
    say(f"published {records} requests in {seconds:.1f} s, {records / max(seconds, 1e-9):.0f}/s")
