"""An HTTP server on the port, or the Unix socket, of the health settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from consumer.errors import SettingsInvalid
from consumer.sections import HealthSettings

_CLOSE_SECONDS = 1.0
"""For answers under way when the process stops."""


@asynccontextmanager
async def listening(settings: HealthSettings, app: web.Application) -> AsyncIterator[None]:
    """Answer until the block ends; nothing to do without a socket and for port 0.

    Raises SettingsInvalid when it cannot listen there.
    """
    if settings.unix_socket is None and settings.port == 0:
        yield
        return
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_SECONDS)
    await runner.setup()
    try:
        await _listen(runner, settings)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: HealthSettings) -> None:
    if settings.unix_socket is not None:
        try:
            await web.UnixSite(runner, settings.unix_socket).start()
        except OSError as refused:
            raise SettingsInvalid(
                f"health.unix_socket is {settings.unix_socket}: nobody can listen there ({refused}): "
                "set a path of at most 100 bytes in a folder that is there and writable"
            ) from refused
        return
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except OSError as refused:
        raise SettingsInvalid(
            f"health.port is {settings.port} and health.host is {settings.host}: nobody can listen there ({refused}): "
            "set a free port and an address of this machine, or health.port to 0 to do without /livez and /readyz"
        ) from refused
