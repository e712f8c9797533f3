"""TLS of a client, from files that may be replaced while it runs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Self

from producer_tools.connections.files import Renewed, Unusable
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity

Trust = Callable[[Path | None], ssl.SSLContext]
"""A context that trusts authorities; given is the section's ca_file."""


class RenewedContext(ssl.SSLContext):
    """The files of a section as a context. A connection made after they changed uses the new ones; others go on.

    Event loops, asyncio's and uvloop's, begin each connection with `wrap_bio`, which is why that is the place.
    """

    def __new__(cls, security: KafkaSecurity | RedisSecurity, trust: Trust | None = None) -> Self:
        """A context's protocol is given here; it is never used itself."""
        del security, trust
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, security: KafkaSecurity | RedisSecurity, trust: Trust | None = None) -> None:
        """`trust`: how to begin, by default trusting those of ca_file, else the system's. Raises Unusable."""
        begin = trust or trust_only
        paths = (security.ca_file, security.certificate_file, security.key_file)
        self._renewed = Renewed([path for path in paths if path is not None], lambda: _context(security, begin))

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the base class's own signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """One connection, by the files as they are now."""
        return self._renewed.get().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def trust_only(authorities: Path | None) -> ssl.SSLContext:
    """Those of the file; without one, the system's."""
    return ssl.create_default_context(cafile=None if authorities is None else str(authorities))


def trust_also(authorities: Path | None) -> ssl.SSLContext:
    """The system's, and those of the file."""
    context = ssl.create_default_context()
    if authorities is not None:
        context.load_verify_locations(authorities)
    return context


def _context(security: KafkaSecurity | RedisSecurity, trust: Trust) -> ssl.SSLContext:
    try:
        context = trust(security.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise Unusable(f"{security.ca_file} holds no certificates in PEM: {_reason(error)}") from error
    context.check_hostname = security.check_hostname
    if security.certificate_file is not None:
        _load_certificate(context, security.certificate_file, security)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Path, security: KafkaSecurity | RedisSecurity) -> None:
    # Without a password OpenSSL would ask for one on the terminal.
    password = "" if security.key_password is None else security.key_password.get_secret_value()
    key = security.key_file
    try:
        context.load_cert_chain(certificate, key, password)
    except (OSError, ssl.SSLError) as error:
        files = str(certificate) if key is None else f"{certificate} and {key}"
        raise Unusable(f"{files} are not a certificate and its key in PEM: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    """ssl.SSLError is an OSError; its own text begins with a list of numbers."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
