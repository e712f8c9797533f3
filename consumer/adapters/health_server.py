"""`/livez` and `/readyz` over HTTP: 200 or 503, one reason a line, or as JSON for those who accept only that.

`/metrics` beside them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import hdrs, web

from consumer.clock import Clock
from consumer.errors import SettingsInvalid
from consumer.health import Health, Reason
from consumer.metrics.exposition import Exposition
from consumer.sections import HealthSettings

_CLOSE_SECONDS = 1.0
"""For answers under way when the worker stops."""


@asynccontextmanager
async def serving(
    settings: HealthSettings, health: Health, exposition: Exposition, clock: Clock
) -> AsyncIterator[None]:
    """Answer until the block ends; nothing to do for port 0. Raises SettingsInvalid when the port cannot be had."""
    if settings.port == 0:
        yield
        return
    app = web.Application()
    app.router.add_get("/livez", lambda request: _answer(request, health.not_live, clock))
    app.router.add_get("/readyz", lambda request: _answer(request, health.not_ready, clock))
    app.router.add_get("/metrics", lambda request: _expose(request, exposition))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_SECONDS)
    await runner.setup()
    try:
        await _listen(runner, settings)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: HealthSettings) -> None:
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except OSError as refused:
        raise SettingsInvalid(
            f"health.port is {settings.port} and health.host is {settings.host}: nobody can listen there ({refused}): "
            "set a free port and an address of this machine, or health.port to 0 to do without /livez and /readyz"
        ) from refused


async def _answer(request: web.Request, ask: Callable[[float], list[Reason]], clock: Clock) -> web.Response:
    reasons = ask(clock.monotonic())
    status = 503 if reasons else 200
    if request.headers.get(hdrs.ACCEPT) == "application/json":
        listed = [{"condition": reason.condition, "detail": reason.detail} for reason in reasons]
        return web.json_response({"ok": not reasons, "reasons": listed}, status=status)
    lines = [f"{reason.condition}: {reason.detail}" for reason in reasons] or ["ok"]
    return web.Response(text="\n".join(lines) + "\n", status=status)


async def _expose(request: web.Request, exposition: Exposition) -> web.Response:
    body, content_type = exposition.expose(request.headers.get(hdrs.ACCEPT, ""))
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})
