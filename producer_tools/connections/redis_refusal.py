"""Why Redis cannot be connected to, out of what its client raised."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import AuthenticationError

from producer_tools.connections.redis import RedisServer
from producer_tools.connections.refusal import Refusal, distrusted


def not_let_in(error: Exception) -> bool:
    """Whether Redis wants to know who comes, or does not know him.

    Of a long command on a connection without a user it says so as of a fault in the protocol, and closes it.
    """
    return isinstance(error, AuthenticationError) or "Protocol error: unauthenticated" in str(error)


def words_of(error: Exception) -> str:
    """What Redis, or its client, said. Of a command that Redis does not know it repeats the arguments: a password."""
    if not_let_in(error) and not isinstance(error, AuthenticationError):
        return "Authentication required."
    return re.split(r",? with args beginning with", str(error), maxsplit=1)[0]


def unknown_command(error: Exception) -> str | None:
    """Which command Redis, or a proxy in front of it, does not know, if that is what it says."""
    found = re.match(r"unknown command ['`]?([\w|]+)", str(error).removeprefix("ERR "), re.IGNORECASE)
    return found[1].upper() if found else None


def why_refused(error: Exception, server: RedisServer, timeout_seconds: float) -> Refusal:
    """What happened, and what to do."""
    said = words_of(error) or f"no answer in {timeout_seconds:g} s"
    fix = "start Redis, or set redis.url to where it listens"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return _not_encrypted(cause, server)
        if isinstance(cause, socket.gaierror):
            fix = "set redis.url to a name that resolves here"
    if isinstance(error, MasterNotFoundError):
        fix = "set redis.url to the Sentinels, and the service to one that they watch"
    encrypted = server.url.startswith("rediss")
    closed = "closed" in said.lower() or any(isinstance(cause, ConnectionResetError) for cause in causes)
    if closed and not encrypted:
        fix = "if it speaks TLS, write rediss in place of redis in redis.url"
    elif encrypted and any(isinstance(cause, TimeoutError) for cause in causes):
        # A Redis without TLS waits for the end of a line.
        fix += "; if it does not speak TLS, write redis in place of rediss"
    return Refusal(said, fix)


def _not_encrypted(error: ssl.SSLError, server: RedisServer) -> Refusal:
    if isinstance(error, ssl.SSLCertVerificationError):
        return distrusted(error, server.security, "redis.security", "redis.url")
    if error.reason == "WRONG_VERSION_NUMBER":
        return Refusal("does not speak TLS", "write redis in place of rediss in redis.url, or take its TLS port")
    return Refusal(
        f"the TLS handshake failed: {error.reason or error}",
        "set redis.security.certificate_file and key_file, if it asks for a client's certificate",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """It, and what it came from."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or one.__context__
