"""An OpenID provider, by TLS: it gives out what it is told to, by the client credentials grant."""

import base64
import ssl
from collections.abc import Callable
from typing import Self

from aiohttp import web

from tests.services.certificates import SignedFiles
from tests.services.process import free_port

Token = tuple[str, float]


class TokenServer:
    """`own`: its certificate, for localhost. `give`: the next token, None to be out of order. It knows one client."""

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        give: Callable[[], Token | None],
        lifetime_seconds: float,
        own: SignedFiles,
    ) -> None:
        self.give = give
        self.asked = 0
        self._expected = "Basic " + base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._lifetime_seconds = lifetime_seconds
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(own.certificate_file, own.key_file)
        self._port = free_port()
        self._runner: web.ServerRunner

    @property
    def endpoint(self) -> str:
        """For `kafka.security.token_endpoint`."""
        return f"https://localhost:{self._port}/token"

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls).start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self.asked += 1
        form = await request.post()
        if request.headers.get("Authorization") != self._expected or form["grant_type"] != "client_credentials":
            return web.json_response({"error": "invalid_client"}, status=401)
        given = self.give()
        if given is None:
            return web.json_response({"error": "temporarily_unavailable"}, status=503)
        return web.json_response({"access_token": given[0], "expires_in": self._lifetime_seconds})
