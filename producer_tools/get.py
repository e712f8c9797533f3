"""One result by its id, from Redis or from the results topic."""

from __future__ import annotations

import sys
import time

from producer_tools.cache import connected, value_of
from producer_tools.connections.kafka import Brokers
from producer_tools.connections.redis import RedisServer
from producer_tools.console import ToolFailure, stdout_console, write_lines
from producer_tools.coordinates import header
from producer_tools.kafka import follow, open_reader, read_spans, spans_of
from producer_tools.rendering import full_page
from schemas import headers as names
from schemas.wire import parse_result

HINT_SECONDS = 1.0
"""A lost hint, or a worker that sends none, delays the answer by no more than this."""


async def get_from_redis(request_id: str, *, server: RedisServer, prefix: str, wait_seconds: float) -> bytes | None:
    """The result's bytes, None when it is not there within `wait_seconds`. Raises RedisError, ToolFailure.

    Subscribes before it looks: a result written in between is not missed. The message is a hint that may be lost, so
    the last word is a GET.
    """
    key = f"{prefix}{request_id}"
    async with connected(server) as client:
        if wait_seconds <= 0:
            return await value_of(client, key)
        async with client.pubsub() as hints:
            await hints.subscribe(key)
            await hints.get_message(timeout=wait_seconds)  # the confirmation: from now on nothing is missed
            deadline = time.monotonic() + wait_seconds
            while (value := await value_of(client, key)) is None:
                left_seconds = deadline - time.monotonic()
                if left_seconds <= 0:
                    return None
                await hints.get_message(ignore_subscribe_messages=True, timeout=min(left_seconds, HINT_SECONDS))
            return value


async def get_from_topic(request_id: str, *, brokers: Brokers, topic: str, wait_seconds: float) -> bytes | None:
    """The newest result of that id on the topic, which is read whole; else the first to come in `wait_seconds`."""
    newest: tuple[int, bytes] | None = None
    async with open_reader(brokers) as reader:
        spans = await spans_of(reader, topic)
        async for records in read_spans(reader, spans):
            for record in records:
                if header(record.headers, names.ID) == request_id and (newest is None or record.timestamp >= newest[0]):
                    newest = (record.timestamp, record.value)
        if newest is not None:
            return newest[1]
        deadline = time.monotonic() + wait_seconds
        async for records in follow(reader, {partition: span.end for partition, span in spans.items()}):
            for record in records:
                if header(record.headers, names.ID) == request_id:
                    return bytes(record.value)
            if time.monotonic() >= deadline:
                return None
    return None


def show(value: bytes | None, request_id: str) -> None:
    """A page on a terminal, the bytes as they are for a program. Raises ToolFailure when nothing came."""
    if value is None:
        raise ToolFailure(f"no result of {request_id}: not scored yet, expired, or never published")
    if sys.stdout.isatty():
        try:
            stdout_console().print(*full_page(parse_result(value)), sep="\n")
        except ValueError as unreadable:
            raise ToolFailure(f"{request_id}: {unreadable}") from None
    else:
        write_lines(value)
