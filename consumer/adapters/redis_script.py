"""A script over many keys, on one server or on a cluster, where each call may only touch the keys of one slot."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import NoScriptError

from producer_tools.connections.redis import RedisClient

Call = tuple[bytes, tuple[bytes, ...]]
"""A key, and its arguments."""


class Script(Protocol):
    """A script whose KEYS are keys, and whose ARGV are one argument for all and then those of each key, in order."""

    async def run(self, argument: bytes, calls: Sequence[Call]) -> int:
        """The sum of the numbers that it returns. Raises RedisError; then it may have run for any of the keys."""


def script_of(client: RedisClient, text: str) -> Script:
    """The script, on that client's server or cluster."""
    return _OnCluster(client, text) if isinstance(client, RedisCluster) else _OnOne(client, text)


class _OnOne:
    """One call for all keys."""

    def __init__(self, client: Redis, text: str) -> None:
        self._run = client.register_script(text)

    async def run(self, argument: bytes, calls: Sequence[Call]) -> int:
        keys, arguments = _flat(argument, calls)
        return int(await self._run(keys=keys, args=arguments))


class _OnCluster:
    """One call for the keys of each slot; those for one node travel together. Keys of one slot keep their order."""

    def __init__(self, client: RedisCluster, text: str) -> None:
        self._client = client
        self._text = text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, argument: bytes, calls: Sequence[Call]) -> int:
        slots: defaultdict[int, list[Call]] = defaultdict(list)
        for call in calls:
            slots[self._client.keyslot(call[0])].append(call)
        results = await self._send(argument, slots.values())
        forgotten = [
            calls for calls, one in zip(slots.values(), results, strict=True) if isinstance(one, NoScriptError)
        ]
        if forgotten:
            # A node that is new, or has restarted: every primary gets it.
            await self._client.script_load(self._text)
            results = [one for one in results if not isinstance(one, NoScriptError)]
            results += await self._send(argument, forgotten)
        return sum(_number(one) for one in results)

    async def _send(self, argument: bytes, groups: Iterable[list[Call]]) -> list[object]:
        """The answer, or the refusal, of each group."""
        pipeline = self._client.pipeline()
        for calls in groups:
            keys, arguments = _flat(argument, calls)
            # The client blocks its own evalsha() here, which it need not: all keys of a call are in one slot.
            pipeline.execute_command("EVALSHA", self._sha, len(keys), *keys, *arguments)
        return list(await pipeline.execute(raise_on_error=False))


def _flat(argument: bytes, calls: Sequence[Call]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in calls], [argument, *(one for _, arguments in calls for one in arguments)]


def _number(answer: object) -> int:
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, int), answer
    return answer
