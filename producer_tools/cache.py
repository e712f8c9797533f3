"""Redis as the tools see it: where readers look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from producer_tools.connections.files import Unusable
from producer_tools.connections.redis import RedisClient, RedisServer
from producer_tools.console import ToolFailure

ANSWER_SECONDS = 5.0
"""A server that has not answered after so long is away."""


@asynccontextmanager
async def connected(server: RedisServer) -> AsyncIterator[RedisClient]:
    """A client, connected when it is first used. Raises ToolFailure for a URL that is none, and for unusable files."""
    try:
        client = server.connect(ANSWER_SECONDS)
    except Unusable as unusable:
        raise ToolFailure(f"--redis-url: {unusable}") from unusable
    async with client:
        yield client


async def value_of(client: RedisClient, key: str) -> bytes | None:
    """None when nothing is there. Raises RedisError."""
    value = await client.get(key)
    if isinstance(value, str):
        raise TypeError("redis decodes responses though it was not asked to: this is a bug")
    return value
