"""The results cache: one script per micro-batch does fence, write and notification for all its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import monotonic

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, DataError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from consumer.errors import DependencyUnavailable, SettingsInvalid
from consumer.records import ScoreEntry
from consumer.sections import RedisSettings
from consumer.startup import RedisFacts, RedisRefused, Unreachable, check_prefix, owner_key, refuse

_CLAIM_SECONDS = 10.0
"""Between two claims of the prefix."""
_SCRIPT = Path(__file__).with_suffix(".lua").read_text(encoding="ascii")


class RedisScores:
    """A `ScoreStore` on Redis 6.2 or newer.

    Retries are the caller's, save one on a new connection; `timeout_seconds` covers a whole write, connecting included.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._client = _client(settings)
        self._write = self._client.register_script(_SCRIPT)
        self._owner: str | None = None
        self._claim_again_at = inf
        self._prefix = settings.prefix.encode()

    async def write(self, entries: Sequence[ScoreEntry]) -> int:
        """Write what the fence allows, publish all; returns how many writes were refused.

        Raises DependencyUnavailable; then any of the entries may be written, and all can be written again. Raises
        SettingsInvalid when Redis does not take the user or password any more, or somebody else has claimed the prefix:
        trying again cannot help.
        """
        if self._owner is not None and monotonic() >= self._claim_again_at:
            await self.claim_prefix(self._owner)
        keys = [self._prefix + entry.id.encode() for entry in entries]
        arguments = [self._settings.notify.value.upper().encode()]
        for entry in entries:
            arguments += (entry.value, _fence_argument(entry))
        with _mapped_errors(self._settings):
            async with asyncio.timeout(self._settings.timeout_seconds):
                try:
                    return int(await self._write(keys=keys, args=arguments))
                except RedisConnectionError as lost:
                    # A connection that was closed while it was idle is no outage. Its subclasses are answers.
                    if type(lost) is not RedisConnectionError:
                        raise
                return int(await self._write(keys=keys, args=arguments))

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
    """What Redis is, or how it failed. Bounded; never raises for a Redis that is not there or refuses us."""
    client = _client(settings)
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            server = await client.info("server")
            memory = await client.info("memory")
            holder = await client.get(owner_key(settings.prefix))
    except (AuthenticationError, ResponseError) as error:
        return RedisRefused(f"{_address(client)}: {error}")
    except (RedisError, OSError) as error:
        return Unreachable(f"{_address(client)}: {error or f'no answer in {settings.timeout_seconds:g} s'}")
    finally:
        await client.aclose()
    return RedisFacts(
        version=str(server["redis_version"]),
        prefix_owner=_text(holder),
        max_memory_bytes=int(memory.get("maxmemory", 0)),
        eviction_policy=str(memory.get("maxmemory_policy", "unknown")),
    )


def _fence_argument(entry: ScoreEntry) -> bytes:
    """See redis_scores.lua."""
    return (
        f"{entry.status} {entry.ttl_seconds} {entry.force:d} "
        f"{entry.partition} {entry.offset} {entry.timestamp_ms} {entry.topic}"
    ).encode()


def _client(settings: RedisSettings) -> Redis:
    """Raises SettingsInvalid for a URL that is none."""
    try:
        return Redis.from_url(
            settings.url.get_secret_value(),
            socket_timeout=settings.timeout_seconds,
            socket_connect_timeout=settings.timeout_seconds,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise SettingsInvalid(f"redis.url: {error}") from error


def _address(client: Redis) -> str:
    """Where the client connects to, without its password."""
    connection = client.connection_pool.connection_kwargs
    return str(connection.get("path") or f"{connection.get('host', 'localhost')}:{connection.get('port', 6379)}")


def _text(value: bytes | str | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


@contextmanager
def _mapped_errors(settings: RedisSettings) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise  # Arguments that no Redis takes: a bug, not an outage.
    except AuthenticationError as error:
        raise SettingsInvalid(
            f"redis.url: Redis refuses its user or password ({error}): set the present ones"
        ) from error
    except TimeoutError as error:
        raise DependencyUnavailable("redis", f"no answer in {settings.timeout_seconds:g} s") from error
    except (RedisError, OSError) as error:
        raise DependencyUnavailable("redis", str(error) or repr(error)) from error
