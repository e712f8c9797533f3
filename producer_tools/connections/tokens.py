"""Tokens for SASL OAUTHBEARER: from a function of the operator's, or from an OpenID provider."""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from importlib.metadata import entry_points
from threading import Thread
from typing import Any

from aiokafka import conn
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from producer_tools.connections.files import Unusable
from producer_tools.connections.settings import KafkaSecurity

ENTRY_POINTS = "scorestream.token_providers"
"""The group of installed entry points that `token_provider` may name."""
TOKEN_SECONDS = 10.0
"""A provider that has not answered after so long has failed."""
RENEWED_AFTER = 0.8
"""The part of a token's life after which another is asked for; until its end it still serves if none is to be had."""
_JWT_PARTS = 3

Token = tuple[str, float]
"""A token and when it ends, in milliseconds since the epoch: what Amazon's signer for MSK returns."""
Provider = Callable[[], Token | Awaitable[Token]]


class TokenUnavailable(KafkaConnectionError):  # type: ignore[misc]  # aiokafka is untyped
    """No token was to be had; to the client this broker cannot be connected to just now, and it tries again."""


class _HeedingAuthenticator(conn.OAuthAuthenticator):  # type: ignore[misc]
    """aiokafka takes a refused token for an accepted one, and every request after it fails in a way of its own.

    A broker tells the reason first and refuses when the client has answered that (RFC 7628, section 3.2.3).
    """

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if payload:
            return b"\x01", True
        return await super().step(payload)  # type: ignore[no-any-return]


conn.OAuthAuthenticator = _HeedingAuthenticator


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """One token for all connections, until most of its life is over."""

    def __init__(self, provider: Provider, extensions: dict[str, str]) -> None:
        self._provider = provider
        self._extensions = extensions
        self._token = ""
        self._renew_at_ms = 0.0
        self._ends_at_ms = 0.0
        self._asking = asyncio.Lock()
        self._calling: Future[Any] | None = None

    async def token(self) -> str:
        """A token that is valid now. Raises TokenUnavailable, with what the provider said."""
        async with self._asking:
            if time.time() * 1000 >= self._renew_at_ms:
                try:
                    await self._renew()
                except Exception as failure:
                    # Somebody else's code: whatever it raises, there is no new token.
                    if time.time() * 1000 >= self._ends_at_ms:
                        said = str(failure) or f"no answer in {TOKEN_SECONDS:g} s"
                        raise TokenUnavailable(f"no token: {type(failure).__name__}: {said}") from failure
            return self._token

    def claims(self) -> str:
        """What the last token says of its end and of whom it is for; empty unless it is a JSON Web Token.

        Nobody has verified it, and the token itself is not in it.
        """
        claims = _payload(self._token)
        told = []
        if ends := _moment(claims.get("exp")):
            over = ", which has passed" if ends.timestamp() <= time.time() else ""
            told.append(f"exp {ends:%Y-%m-%dT%H:%M:%SZ}{over}")
        told += [f"{name} {json.dumps(claims[name])}" for name in ("aud", "iss", "scope", "scp") if name in claims]
        return ", ".join(told)

    def extensions(self) -> dict[str, str]:
        """What is sent beside the token."""
        return self._extensions

    async def _renew(self) -> None:
        async with asyncio.timeout(TOKEN_SECONDS):
            if inspect.iscoroutinefunction(self._provider):
                answer = await self._provider()
            else:
                answer = await self._call(self._provider)
        token, ends_at_ms = answer
        now_ms = time.time() * 1000
        if ends_at_ms <= now_ms:
            raise ValueError("the provider gave a token that has expired; its end is milliseconds since the epoch")
        self._token, self._ends_at_ms = token, ends_at_ms
        self._renew_at_ms = now_ms + RENEWED_AFTER * (ends_at_ms - now_ms)

    async def _call(self, provider: Callable[[], Any]) -> Any:
        """In a thread of its own: a call that never returns must not take one that resolves names, or delay the end."""
        if self._calling is not None and not self._calling.done():
            raise TimeoutError("an earlier call has not returned yet")
        self._calling = done = Future[Any]()
        # Whoever stops waiting must not cancel it: it tells when the provider has come back after all.
        done.set_running_or_notify_cancel()
        Thread(target=_call, args=(provider, done), name="token provider", daemon=True).start()
        return await asyncio.wrap_future(done)


def _payload(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}  # opaque, with dots in it
    return payload if isinstance(payload, dict) else {}


def _moment(claim: object) -> datetime | None:
    """None: it is none that there is."""
    try:
        return datetime.fromtimestamp(claim, UTC) if isinstance(claim, int | float) else None
    except (ValueError, OverflowError, OSError):
        return None


def _call(provider: Callable[[], Any], done: Future[Any]) -> None:
    try:
        done.set_result(provider())
    except BaseException as fault:  # noqa: BLE001 -- handed to whoever waits
        # A SystemExit would end whoever waits, a StopIteration leave him waiting.
        plain = isinstance(fault, Exception) and not isinstance(fault, StopIteration)
        done.set_exception(fault if plain else RuntimeError(f"the provider raised {type(fault).__name__}"))


def tokens(security: KafkaSecurity) -> Tokens:
    """By what the settings say. Raises Unusable when the provider they name cannot be loaded."""
    extensions = dict(one.split("=", 1) for one in security.sasl_extensions)
    if security.token_provider is not None:
        return Tokens(_load(security.token_provider), extensions)
    assert security.token_endpoint is not None, "checked by the settings"
    from producer_tools.connections.client_credentials import ClientCredentials  # noqa: PLC0415 - heavy

    return Tokens(ClientCredentials(security, security.token_endpoint).token, extensions)


def _load(name: str) -> Provider:
    module, colon, function = name.partition(":")
    try:
        if colon:
            provider: Any = getattr(importlib.import_module(module), function)
        else:
            provider = entry_points(group=ENTRY_POINTS)[name].load()
    except KeyError:
        there = ", ".join(sorted(entry_points(group=ENTRY_POINTS).names)) or "none"
        raise Unusable(
            f"token_provider is {name}: no package has installed such an entry point (there are: {there}); write "
            "module:function, or install the package"
        ) from None
    except (ImportError, AttributeError) as error:
        raise Unusable(f"token_provider is {name}, which cannot be imported: {error}") from error
    if not callable(provider):
        raise Unusable(f"token_provider is {name}, which is no function")
    return provider  # type: ignore[no-any-return]  # what it returns shows when it is called
