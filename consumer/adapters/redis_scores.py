"""The results cache: one script per micro-batch does fence, write and notification for all its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import AuthenticationError, DataError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from consumer.adapters.redis_script import script_of
from consumer.errors import DependencyUnavailable, SettingsInvalid
from consumer.records import ScoreEntry
from consumer.sections import RedisSettings
from consumer.startup import RedisFacts, RedisRefused, Unreachable, check_prefix, owner_key, refuse
from producer_tools.connections.files import Unusable
from producer_tools.connections.redis import RedisClient, RedisServer
from producer_tools.connections.redis_refusal import why_refused

_CLAIM_SECONDS = 10.0
"""Between two claims of the prefix."""
_RIGHTS = """
local forbidden = {}
local commands = {{'GETRANGE', KEYS[1], 0, 511}, {'SET', KEYS[1], '', 'EX', 1}, {ARGV[1], KEYS[1], ''}}
for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
  if command[1] ~= 'OFF' and not redis.acl_check_cmd(unpack(command)) then
    table.insert(forbidden, command[1])
  end
end
return forbidden
"""
"""Which of the commands that the script uses this user may not run. Redis 7 and newer can say."""
_SCRIPT = Path(__file__).with_suffix(".lua").read_text(encoding="ascii")


class RedisScores:
    """A `ScoreStore` on Redis 6.2 or newer.

    Retries are the caller's, save one on a new connection; `timeout_seconds` covers a whole write, connecting included.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._client = _client(settings)
        self._script = script_of(self._client, _SCRIPT)
        self._owner: str | None = None
        self._claim_again_at = inf
        self._prefix = settings.prefix.encode()

    async def write(self, entries: Sequence[ScoreEntry]) -> int:
        """Write what the fence allows, publish all; returns how many writes were refused.

        Raises DependencyUnavailable; then any of the entries may be written, and all can be written again. Raises
        SettingsInvalid when Redis does not take the user or password of the settings any more, or somebody else has
        claimed the prefix: trying again cannot help.
        """
        if self._owner is not None and monotonic() >= self._claim_again_at:
            await self.claim_prefix(self._owner)
        notify = self._settings.notify.value.upper().encode()
        calls = [(self._prefix + entry.id.encode(), (entry.value, _fence_argument(entry))) for entry in entries]
        with _mapped_errors(self._settings):
            async with asyncio.timeout(self._settings.timeout_seconds):
                try:
                    return await self._script.run(notify, calls)
                except RedisConnectionError as lost:
                    # A connection that was closed while it was idle is no outage. Its subclasses are answers.
                    if type(lost) is not RedisConnectionError:
                        raise
                return await self._script.run(notify, calls)

    async def claim_prefix(self, owner: str) -> None:
        """Claim the key prefix for `owner`, from now on. Raises SettingsInvalid when somebody else has it.

        Redis may lose the claim, when it comes back empty: it is made again now and then.
        """
        key = owner_key(self._settings.prefix)
        with _mapped_errors(self._settings):
            async with asyncio.timeout(self._settings.timeout_seconds):
                await self._client.set(key, owner, nx=True)
                holder = await self._client.get(key)
        refuse([check_prefix(self._settings.prefix, owner, _text(holder))])
        self._owner, self._claim_again_at = owner, monotonic() + _CLAIM_SECONDS

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def read_facts(settings: RedisSettings) -> RedisFacts | RedisRefused | Unreachable:
    """What Redis is, or how it failed. Bounded; never raises."""
    place = _server(settings).place
    try:
        client = _server(settings).connect(settings.timeout_seconds)
    except Unusable as unusable:
        return Unreachable(f"redis.url, redis.security: {unusable}", "see docs/secure.md for URLs and files")
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            servers = await _information(client)
            holder = await client.get(owner_key(settings.prefix))
            forbidden = await client.register_script(_RIGHTS)(
                keys=[f"{settings.prefix}id"], args=[settings.notify.value.upper()]
            )
    except (AuthenticationError, ResponseError) as error:
        return RedisRefused(f"{place}: {error}")
    except (RedisError, OSError) as error:
        refusal = why_refused(error, _server(settings), settings.timeout_seconds)
        return Unreachable(f"{place}: {refusal.found}", refusal.fix)
    finally:
        await client.aclose()
    return RedisFacts(
        version=str(servers[0]["redis_version"]),
        prefix_owner=_text(holder),
        max_memory_bytes=sum(int(one.get("maxmemory", 0)) for one in servers),
        eviction_policy=str(servers[0].get("maxmemory_policy", "unknown")),
        forbidden=tuple(command.decode() for command in forbidden),
        mode=str(servers[0].get("redis_mode", "standalone")),
        role=str(servers[0].get("role", "master")),
    )


def _fence_argument(entry: ScoreEntry) -> bytes:
    """See redis_scores.lua."""
    return (
        f"{entry.status} {entry.ttl_seconds} {entry.force:d} "
        f"{entry.partition} {entry.offset} {entry.timestamp_ms} {entry.topic}"
    ).encode()


def _server(settings: RedisSettings) -> RedisServer:
    return RedisServer(settings.url.get_secret_value(), settings.security)


def _client(settings: RedisSettings) -> RedisClient:
    """Raises SettingsInvalid for a URL that is none, and for files that cannot be used."""
    try:
        return _server(settings).connect(settings.timeout_seconds)
    except Unusable as unusable:
        raise SettingsInvalid(f"redis.url: {unusable}") from unusable


async def _information(client: RedisClient) -> list[dict[str, Any]]:
    """INFO of the server, or of every primary of the cluster."""
    if isinstance(client, RedisCluster):
        return list((await client.info(target_nodes=RedisCluster.PRIMARIES)).values())
    return [await client.info()]


def _text(value: bytes | str | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


@contextmanager
def _mapped_errors(settings: RedisSettings) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise  # Arguments that no Redis takes: a bug, not an outage.
    except AuthenticationError as error:
        if settings.security.password_file is not None:
            # The file may get the new one any moment.
            raise DependencyUnavailable("redis", f"refuses its user or password ({error})") from error
        raise SettingsInvalid(
            f"redis.url: Redis refuses its user or password ({error}): set the present ones"
        ) from error
    except TimeoutError as error:
        raise DependencyUnavailable("redis", f"no answer in {settings.timeout_seconds:g} s") from error
    except (RedisError, OSError) as error:
        raise DependencyUnavailable("redis", str(error) or repr(error)) from error
