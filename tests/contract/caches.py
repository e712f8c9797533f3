"""One way to speak to every score store, and entries with the bytes that the worker writes."""

import asyncio
import uuid
from typing import Protocol

from pydantic import SecretStr

from consumer.adapters.redis_scores import RedisScores
from consumer.interfaces import ScoreStore
from consumer.records import ScoreEntry
from consumer.sections import RedisSettings
from producer_tools.connections.redis import OPEN, RedisServer
from producer_tools.connections.settings import RedisSecurity
from schemas.errors import ErrorCode
from schemas.wire import seal_result
from tests.fakes.in_memory_scores import InMemoryScores

TIMEOUT_SECONDS = 1.0
PATIENCE_SECONDS = 30.0
"""For what comes at once, unless the machine is busy."""


class Cache(Protocol):
    """A store and what its readers see. Ids are unique to it."""

    @property
    def store(self) -> ScoreStore: ...
    async def get(self, name: str) -> bytes | None: ...
    async def put_foreign(self, name: str, value: bytes) -> None: ...
    async def ttl_seconds(self, name: str) -> int: ...
    async def published(self, count: int) -> list[tuple[str, str]]: ...
    async def close(self) -> None: ...


class InMemoryCache:
    def __init__(self) -> None:
        self.store = self._scores = InMemoryScores()

    async def get(self, name: str) -> bytes | None:
        return self._scores.values.get(name)

    async def put_foreign(self, name: str, value: bytes) -> None:
        self._scores.values[name] = value

    async def ttl_seconds(self, name: str) -> int:
        return self._scores.ttl_seconds[name]

    async def published(self, count: int) -> list[tuple[str, str]]:
        return self._scores.published[:count]

    async def close(self) -> None:
        pass


class RedisCache:
    """`reader`: how its readers come, if not as the worker does."""

    def __init__(
        self,
        url: str,
        security: RedisSecurity = OPEN,
        reader: RedisServer | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.prefix = f"{uuid.uuid4().hex}:"
        self.settings = RedisSettings(
            url=SecretStr(url), security=security, prefix=self.prefix, timeout_seconds=timeout_seconds
        )
        self.store = RedisScores(self.settings)
        self.client = (reader or RedisServer(url, security)).connect(timeout_seconds)
        self._channels = self.client.pubsub(ignore_subscribe_messages=True)

    async def listen(self) -> None:
        # Of a cluster, who has which slot has to be known first.
        await self.client.initialize()
        await self._channels.psubscribe(f"{self.prefix}*")
        # A subscription counts from its confirmation on.
        await self._channels.get_message(ignore_subscribe_messages=True, timeout=PATIENCE_SECONDS)

    async def get(self, name: str) -> bytes | None:
        value = await self.client.get(self.prefix + name)
        assert not isinstance(value, str)
        return value

    async def put_foreign(self, name: str, value: bytes) -> None:
        await self.client.set(self.prefix + name, value)

    async def ttl_seconds(self, name: str) -> int:
        return await self.client.ttl(self.prefix + name)

    async def published(self, count: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < count:
                message = await self._channels.get_message(timeout=1)
                if message is not None:
                    found.append((message["channel"].decode().removeprefix(self.prefix), message["data"].decode()))
        return found

    async def close(self) -> None:
        await self._channels.aclose()  # type: ignore[no-untyped-call]
        await self.client.aclose()
        await self.store.close()


def entry(
    name: str = "id",
    *,
    topic: str = "requests",
    partition: int = 0,
    offset: int = 10,
    timestamp_ms: int = 1000,
    status: str = "ok",
    note: str = "",
    force: bool = False,
) -> ScoreEntry:
    """With the bytes that the worker writes: the fence reads their head."""
    sealed = seal_result(
        status=status,
        source=(topic, partition, offset, timestamp_ms),
        id=name,
        task="score",
        model=("model", None, "fingerprint"),
        scale=None,
        results=[],
        failed=[],
        truncated=[],
        prompt_tokens=None,
        error=None if status == "ok" else (ErrorCode.INTERNAL, "message", None),
        metadata={"note": note},
        dropped=[],
    )
    value = sealed.finish(dict.fromkeys(("queue", "prepare", "engine", "emit", "total"), 0.0), 0)
    return ScoreEntry(name, value, status, 60, topic, partition, offset, timestamp_ms, force)
