"""What every Kafka client is given of addresses, encryption and credentials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from producer_tools.connections.passwords import password_of
from producer_tools.connections.settings import KafkaSecurity, SaslMechanism
from producer_tools.connections.tls import RenewedContext
from producer_tools.connections.tokens import tokens

PLAINTEXT = KafkaSecurity()
"""Neither encryption nor credentials."""


class Brokers(NamedTuple):
    """Where a cluster is, and how it is connected to. `bootstrap_servers`: comma-separated host:port."""

    bootstrap_servers: str
    security: KafkaSecurity = PLAINTEXT

    @property
    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of any client of aiokafka. Raises Unusable."""
        return {"bootstrap_servers": self.bootstrap_servers, **connection_options(self.security)}


def connection_options(security: KafkaSecurity) -> dict[str, Any]:
    """As `Brokers.client_options`, without the addresses: what a single connection takes too."""
    options = {"security_protocol": security.protocol.value, **_shared_options(security)}
    if security.sasl_mechanism is not None:
        options["sasl_mechanism"] = security.sasl_mechanism.value
        if security.sasl_mechanism is not SaslMechanism.OAUTHBEARER:
            options["sasl_plain_username"] = security.username
            options["sasl_plain_password"] = password_of(security)()
    return options


@lru_cache
def _shared_options(security: KafkaSecurity) -> Mapping[str, Any]:
    """All clients of a process have one token, and read the files once."""
    options: dict[str, Any] = {}
    if security.protocol.encrypted:
        options["ssl_context"] = RenewedContext(security)
    if security.sasl_mechanism is SaslMechanism.OAUTHBEARER:
        options["sasl_oauth_token_provider"] = tokens(security)
    return options
