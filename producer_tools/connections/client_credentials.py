"""Tokens of an OpenID provider, for a client that has an id and a secret."""

from __future__ import annotations

import time

import aiohttp

from producer_tools.connections.passwords import password_of
from producer_tools.connections.settings import KafkaSecurity
from producer_tools.connections.tls import RenewedContext, trust_also
from producer_tools.connections.tokens import Token


class ClientCredentials:
    """OAuth 2.0's client credentials grant (RFC 6749, section 4.4)."""

    def __init__(self, security: KafkaSecurity, endpoint: str) -> None:
        """Raises Unusable."""
        self._security = security
        self._endpoint = endpoint
        # It is another server than the brokers: a public one as a rule, and not shown this client's certificate.
        own = {"certificate_file": None, "key_file": None, "check_hostname": True}
        self._tls = RenewedContext(security.model_copy(update=own), trust_also)

    async def token(self) -> Token:
        """One from the endpoint. Raises aiohttp.ClientError, Unusable, or ValueError for an answer that is none."""
        form = {"grant_type": "client_credentials"}
        if self._security.token_scope is not None:
            form["scope"] = self._security.token_scope
        credentials = aiohttp.BasicAuth(self._security.username or "", password_of(self._security)())
        asked_at_ms = time.time() * 1000
        async with (
            aiohttp.ClientSession(auth=credentials) as session,
            session.post(self._endpoint, data=form, ssl=self._tls) as answer,
        ):
            answer.raise_for_status()
            body = await answer.json()
        try:
            return str(body["access_token"]), asked_at_ms + 1000 * float(body["expires_in"])
        except (KeyError, TypeError, ValueError) as odd:
            raise ValueError(f"{self._endpoint} answered without access_token and expires_in") from odd
