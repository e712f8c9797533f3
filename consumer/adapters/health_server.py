"""`/livez` and `/readyz` over HTTP: 200 or 503, one reason a line, or as JSON for those who accept only that.

`/metrics` beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from aiohttp import hdrs, web

from consumer.adapters.http_server import listening
from consumer.clock import Clock
from consumer.health import Health, Reason
from consumer.metrics.exposition import Exposition
from consumer.sections import HealthSettings


def serving(
    settings: HealthSettings, health: Health, exposition: Exposition, clock: Clock
) -> AbstractAsyncContextManager[None]:
    """Answer until the block ends. Raises SettingsInvalid when the port, or the socket, cannot be had."""
    app = web.Application()
    app.router.add_get("/livez", partial(_answer, ask=health.not_live, clock=clock))
    app.router.add_get("/readyz", partial(_answer, ask=health.not_ready, clock=clock))
    app.router.add_get("/metrics", partial(_expose, exposition=exposition))
    return listening(settings, app)


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
