"""The results cache: one script per micro-batch does fence, write and notification for all its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from consumer.adapters.redis_claim import RedisClaim, read_claims
from consumer.adapters.redis_errors import mapped_errors
from consumer.adapters.redis_script import script_of
from consumer.errors import SettingsInvalid
from consumer.key_prefix import CLAIMS_KEY, owner_key
from consumer.records import ScoreEntry
from consumer.sections import RedisSettings
from consumer.startup import PrefixClaim, RedisFacts, RedisRefused, Unreachable
from producer_tools.connections.files import Unusable
from producer_tools.connections.redis import RedisClient, RedisServer
from producer_tools.connections.redis_refusal import unknown_command, why_refused, words_of

_RIGHTS = """
local forbidden, id, claims, owner = {}, KEYS[1], ARGV[2], ARGV[3]
local commands = {
  {'GETRANGE', id, 0, 511}, {'SET', id, '', 'EX', 1}, {ARGV[1], id, ''},
  {'HGET', claims, ''}, {'HGETALL', claims}, {'HSET', claims, '', ''}, {'HDEL', claims, ''}, {'TIME'},
  {'GET', owner}, {'SET', owner, ''},
}
for _, command in ipairs(redis.acl_check_cmd and commands or {}) do
  if command[1] ~= 'OFF' then
    local known, allowed = pcall(redis.acl_check_cmd, unpack(command))
    if not known then
      return redis.error_reply("ERR unknown command '" .. command[1] .. "'")
    end
    if not allowed then
      table.insert(forbidden, {command[1], command[2] or ''})
    end
  end
end
return forbidden
"""
"""Which of the commands that the scripts use this user may not run, and on which key. Redis 7 and newer can say."""
_SCRIPT = Path(__file__).with_suffix(".lua").read_text(encoding="ascii")


class RedisScores:
    """A `ScoreStore` on Redis 5.0 or newer.

    Retries are the caller's, save one on a new connection; `timeout_seconds` covers a whole write, connecting included.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._client = _client(settings)
        self._script = script_of(self._client, _SCRIPT)
        self._claim = RedisClaim(self._client, settings)
        self._prefix = settings.prefix.encode()

    async def write(self, entries: Sequence[ScoreEntry]) -> int:
        """Write what the fence allows, publish all; returns how many writes were refused.

        Raises DependencyUnavailable; then any of the entries may be written, and all can be written again. Raises
        SettingsInvalid when Redis does not take the user or password of the settings any more.
        """
        notify = self._settings.notify.value.upper().encode()
        calls = [(self._prefix + entry.id.encode(), (entry.value, _fence_argument(entry))) for entry in entries]
        with mapped_errors(self._settings):
            async with asyncio.timeout(self._settings.timeout_seconds):
                try:
                    return await self._script.run(notify, calls)
                except RedisConnectionError as lost:
                    # A connection that was closed while it was idle is no outage. Its subclasses are answers.
                    if type(lost) is not RedisConnectionError:
                        raise
                return await self._script.run(notify, calls)

    async def claim_prefix(self, owner: str, looked_at: float) -> None:
        """Claim the key prefix for `owner`; see RedisClaim.take."""
        await self._claim.take(owner, looked_at)

    async def keep_claim(self, owner: str) -> NoReturn:
        """Keep it while the worker runs; see RedisClaim.keep."""
        await self._claim.keep(owner)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def read_facts(settings: RedisSettings) -> RedisFacts | RedisRefused | Unreachable:
    """What Redis is, or how it failed. Bounded; never raises."""
    server = _server(settings)
    try:
        place = server.place
        client = server.connect(settings.timeout_seconds)
    except Unusable as unusable:
        return Unreachable(f"redis.url, redis.security: {unusable}", "see docs/secure.md for URLs and files")
    forbidden: tuple[tuple[str, str], ...] = ()
    claims: list[PrefixClaim] | None = None
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            servers = await _information(client)
            if _is_what_the_url_says(client, servers[0]):
                forbidden = await _forbidden(client, settings)
                claims = await read_claims(client, settings.prefix) if _claims_readable(forbidden) else None
    except (AuthenticationError, ResponseError) as error:
        return _refused(place, error)
    except (RedisError, OSError) as error:
        refusal = why_refused(error, server, settings.timeout_seconds)
        return Unreachable(f"{place}: {refusal.found}", refusal.fix)
    finally:
        await client.aclose()
    limited = [one for one in servers if one.get("maxmemory")]
    return RedisFacts(
        version=str(servers[0].get("redis_version", "unknown")),
        claims=None if claims is None else tuple(claims),
        max_memory_bytes=sum(int(one["maxmemory"]) for one in limited),
        own_memory_bytes=sum(int(one.get("used_memory_startup", 0)) for one in limited),
        free_memory_bytes=min(
            (int(one["maxmemory"]) - int(one.get("used_memory", 0)) for one in limited), default=None
        ),
        eviction_policy=str(servers[0].get("maxmemory_policy", "unknown")),
        forbidden=forbidden,
        mode=str(servers[0].get("redis_mode", "standalone")),
        role=str(servers[0].get("role", "master")),
    )


def _is_what_the_url_says(client: RedisClient, server: dict[str, Any]) -> bool:
    """A Sentinel knows no scripts, and a node of a cluster not every key; that it is one is what there is to say."""
    mode = server.get("redis_mode", "standalone")
    return mode == "standalone" or (mode == "cluster" and isinstance(client, RedisCluster))


async def _forbidden(client: RedisClient, settings: RedisSettings) -> tuple[tuple[str, str], ...]:
    """What this user may not run, and on which keys."""
    result = f"{settings.prefix}id"
    notify = settings.notify.value.upper()
    script = client.register_script(_RIGHTS)
    found = await script(keys=[result], args=[notify, CLAIMS_KEY, owner_key(settings.prefix)])
    told = ((command.decode(), key.decode()) for command, key in found)
    return tuple((command, f"{settings.prefix}*" if key == result else key) for command, key in told)


def _claims_readable(forbidden: tuple[tuple[str, str], ...]) -> bool:
    return not {"HGETALL", "TIME", "GET"} & {command for command, _ in forbidden}


def _refused(place: str, error: Exception) -> RedisRefused:
    command = unknown_command(error)
    if command is None:
        return RedisRefused(f"{place}: {words_of(error)}")
    fix = (
        f"have Redis, or the proxy in front of it, take {command}: docs/secure.md has the commands that a worker needs"
    )
    return RedisRefused(f"{place}: does not know the command {command}", fix)


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
