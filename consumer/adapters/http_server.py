"""An HTTP server on the port, or the Unix socket, of the health settings."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from consumer.adapters.http_visits import Visit, Visits
from consumer.errors import SettingsInvalid
from consumer.sections import HealthSettings

EVERY_ADDRESS = "::"
_CLOSE_SECONDS = 1.0
"""For answers under way when the process stops."""
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT)
_NOT_HTTP = (HttpProcessingError, web.RequestPayloadError)


@asynccontextmanager
async def listening(settings: HealthSettings, app: web.Application) -> AsyncIterator[None]:
    """Answer until the block ends; nothing to do without a socket and for port 0.

    Raises SettingsInvalid when it cannot listen there.
    """
    if settings.unix_socket is None and settings.port == 0:
        yield
        return
    visits = Visits()
    app.middlewares.insert(0, visits.one_request_each)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_SECONDS, logger=_logger())
    await runner.setup()
    served = runner.server
    assert served is not None
    try:
        servers = await _serve(settings, lambda: Visit(visits, served()))
        try:
            yield
        finally:
            for server in servers:
                server.close()
    finally:
        await runner.cleanup()


async def _serve(settings: HealthSettings, connected: Callable[[], asyncio.Protocol]) -> list[asyncio.AbstractServer]:
    """Raises SettingsInvalid."""
    loop = asyncio.get_running_loop()
    if settings.unix_socket is not None:
        try:
            return [await loop.create_unix_server(connected, str(settings.unix_socket))]
        except OSError as refused:
            raise SettingsInvalid(
                f"health.unix_socket is {settings.unix_socket}: nobody can listen there ({refused}): "
                "set a path of at most 100 bytes in a folder that is there and writable"
            ) from refused
    try:
        every = settings.host == EVERY_ADDRESS
        listeners = [_every_address(settings.port)] if every else await _each_address(settings.host, settings.port)
    except OSError as refused:
        raise SettingsInvalid(
            f"health.port is {settings.port} and health.host is {settings.host}: nobody can listen there ({refused}): "
            "set a free port and an address of this machine, or health.port to 0 to do without /livez and /readyz"
        ) from refused
    return [await loop.create_server(connected, sock=listener) for listener in listeners]


def _every_address(port: int) -> socket.socket:
    """Of IPv6 and IPv4; of IPv4 alone on a machine without IPv6. Raises OSError."""
    try:
        return socket.create_server((EVERY_ADDRESS, port), family=socket.AF_INET6, dualstack_ipv6=True)
    except ValueError:  # no such socket here
        return socket.create_server(("", port))
    except OSError as refused:
        if refused.errno not in _NO_IPV6:
            raise
        return socket.create_server(("", port))


async def _each_address(host: str, port: int) -> list[socket.socket]:
    """One for each address that the name has on this machine. Raises OSError when it is none of this machine's."""
    listeners: list[socket.socket] = []
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    absent: OSError | None = None
    for family, address in dict.fromkeys((family, address) for family, *_, address in found):
        try:
            listeners.append(socket.create_server(address, family=family))
        except OSError as refused:
            # As for `localhost`, which has an address of IPv6 also where there is none.
            if refused.errno not in _NO_IPV6:
                for listener in listeners:
                    listener.close()
                raise
            absent = refused
    if absent is not None and not listeners:
        raise absent
    return listeners


def _logger() -> logging.Logger:
    """For what aiohttp logs of single requests: once a minute of each kind, by consumer.logs."""
    logger = logging.getLogger(__name__)
    if not any(isinstance(known, _Strangers) for known in logger.filters):
        logger.addFilter(_Strangers())
    return logger


class _Strangers(logging.Filter):
    """What is not HTTP is no failure of ours: a warning without a trace, and without a word of what came."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Affects: the record."""
        failure = record.exc_info[1] if record.exc_info else None
        if isinstance(failure, _NOT_HTTP):
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
            record.msg, record.args = "health.port: not a request in HTTP, at last: %s", (type(failure).__name__,)
            record.exc_info = None
        return True
