"""The claim of a key prefix in Redis: taken before the worker joins its group, and kept while it runs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from time import monotonic
from typing import NoReturn

import structlog

from consumer.adapters.redis_errors import mapped_errors
from consumer.errors import DependencyUnavailable
from consumer.key_prefix import CLAIMS_KEY, owner_key
from consumer.sections import RedisSettings
from consumer.startup import PrefixClaim, check_prefix, refuse
from producer_tools.connections.redis import RedisClient

RENEW_SECONDS = 0.5
"""Between two looks at the claim."""
QUIET_SECONDS = 3.0
"""Between two looks that both find a prefix free: whoever has it, and whose claim Redis has lost, is back by then."""

_CLAIM = re.compile(r"(\d+) (\d+) (.*)", re.DOTALL)
_LOOK = "return {redis.call('TIME'), redis.call('HGETALL', KEYS[1])}"
_SCRIPT = Path(__file__).with_name("redis_claims.lua").read_text(encoding="ascii")

log = structlog.get_logger()


class RedisClaim:
    """One worker's claim of its prefix. All workers of one deployment are one owner."""

    def __init__(self, client: RedisClient, settings: RedisSettings) -> None:
        self._client = client
        self._settings = settings
        self._script = client.register_script(_SCRIPT)
        self._since_ms: int | None = None

    async def take(self, owner: str, looked_at: float) -> None:
        """Claim the prefix for `owner`. `looked_at`: when a look found it free or ours, monotonic seconds.

        What stands against it raises SettingsInvalid. Raises DependencyUnavailable.
        """
        if not await self._ours(owner):
            await asyncio.sleep(looked_at + QUIET_SECONDS - monotonic())
            await self._ours(owner)
        await self._renew(owner)

    async def keep(self, owner: str) -> NoReturn:
        """Bring the claim back whenever Redis has lost it. Raises SettingsInvalid when an elder one stands against it.

        While Redis does not answer, whoever writes finds that out too, and is held.
        """
        failing = False
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._renew(owner)
            except DependencyUnavailable as unavailable:
                if not failing:
                    log.warning("claim of redis.prefix not renewed", reason=unavailable.reason)
                failing = True
            else:
                if failing:
                    log.info("claim of redis.prefix renewed")
                failing = False

    async def _ours(self, owner: str) -> bool:
        """Whether this owner has it already. Raises SettingsInvalid when another claim stands against it."""
        prefix = self._settings.prefix
        with mapped_errors(self._settings):
            async with asyncio.timeout(self._settings.timeout_seconds):
                claims = await read_claims(self._client, prefix)
        refuse([check_prefix(prefix, owner, claims)])
        return any((claim.prefix, claim.owner) == (prefix, owner) for claim in claims)

    async def _renew(self, owner: str) -> None:
        prefix = self._settings.prefix
        had = "" if self._since_ms is None else str(self._since_ms)
        with mapped_errors(self._settings):
            async with asyncio.timeout(self._settings.timeout_seconds):
                since_ms, *against = await self._script(keys=[CLAIMS_KEY], args=[prefix, owner, had])
                if not against and await self._client.get(owner_key(prefix)) != owner.encode():
                    # Workers of 0.1 know this key alone. A stranger of that version that wrote it meanwhile sees ours.
                    await self._client.set(owner_key(prefix), owner)
        if against:
            refuse([check_prefix(prefix, owner, [_claim(*against, now_ms=None)])])
        self._since_ms = since_ms


async def read_claims(client: RedisClient, prefix: str) -> list[PrefixClaim]:
    """All claims, and for `prefix` that of version 0.1 where there is no other. Raises RedisError."""
    (seconds, microseconds), found = await client.register_script(_LOOK)(keys=[CLAIMS_KEY])
    now_ms = 1000 * int(seconds) + int(microseconds) // 1000
    claims = [_claim(field, value, now_ms=now_ms) for field, value in zip(found[::2], found[1::2], strict=True)]
    if all(claim.prefix != prefix for claim in claims):
        holder = await client.get(owner_key(prefix))
        if isinstance(holder, bytes):
            claims.append(PrefixClaim(prefix, holder.decode(errors="replace")))
    return claims


def _claim(prefix: bytes, value: bytes, *, now_ms: int | None) -> PrefixClaim:
    """See redis_claims.lua."""
    text = value.decode(errors="replace")
    found = _CLAIM.fullmatch(text)
    seen_seconds = None if found is None or now_ms is None else max(0.0, (now_ms - int(found[2])) / 1000)
    return PrefixClaim(prefix.decode(errors="replace"), found[3] if found else text, seen_seconds)
