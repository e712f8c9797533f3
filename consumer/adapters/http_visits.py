"""Connections to the HTTP server that cannot hold it: each is one request with seconds to live, and they are few.

aiohttp waits an hour for the rest of a request, and for ever for a reader that does not read. Behind that stand a
descriptor and memory, so whoever may connect could keep a worker from answering its probes, and from Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from aiohttp import web

REQUEST_SECONDS = 5.0
"""From a connection's first moment until its request is complete."""
ANSWER_SECONDS = 20.0
"""From then until the answer is made and read; a scrape of several workers takes up to five."""
MOST_VISITS = 100
"""Connections at once. One more ends the oldest, rather one that has asked nothing yet: a probe asks at once."""


class Visits:
    """All connections of one server, oldest first."""

    def __init__(self) -> None:
        self._visits: dict[asyncio.BaseTransport, Visit] = {}

    @web.middleware
    async def one_request_each(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """To be the app's first middleware: the request is complete, and the connection ends with its answer."""
        if request.transport in self._visits:
            self._visits[request.transport].asked()
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            refusal.force_close()
            raise
        response.force_close()
        return response

    def begin(self, transport: asyncio.BaseTransport, visit: Visit) -> None:
        """Make room for it, if need be."""
        if len(self._visits) >= MOST_VISITS:
            waiting = (visit for visit in self._visits.values() if not visit.has_asked)
            next(waiting, next(iter(self._visits.values()))).abort()
        self._visits[transport] = visit

    def end(self, transport: asyncio.BaseTransport) -> None:
        """It is over."""
        self._visits.pop(transport, None)


class Visit(asyncio.Protocol):
    """One connection, which aiohttp's `handler` serves."""

    def __init__(self, visits: Visits, handler: asyncio.Protocol) -> None:
        self.has_asked = False
        self._visits = visits
        self._handler = handler
        self._transport: asyncio.WriteTransport
        self._deadline: asyncio.TimerHandle

    def asked(self) -> None:
        """Its request is complete."""
        self.has_asked = True
        self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self.abort)

    def abort(self) -> None:
        """End it without another word; what was not read is dropped."""
        self._visits.end(self._transport)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its time begins."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._deadline = asyncio.get_running_loop().call_later(REQUEST_SECONDS, self.abort)
        self._visits.begin(transport, self)
        self._handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """By either side."""
        self._deadline.cancel()
        self._visits.end(self._transport)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """For the handler."""
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        """For the handler."""
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        """For the handler."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """For the handler."""
        self._handler.resume_writing()
