"""Why a broker cannot be connected to: the name, the network, TLS, the protocol, the credentials.

Clients say little more than that they could not. So an address is tried step by step, the way they do it, and the
first step that fails is told with its fix.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass, replace

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import IllegalSaslStateError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.metadata import MetadataRequest

from producer_tools.connections.files import Unusable
from producer_tools.connections.kafka import PLAINTEXT, Brokers, connection_options
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity, SaslMechanism, SecurityProtocol
from producer_tools.connections.tokens import TOKEN_SECONDS, TokenUnavailable

STEP_SECONDS = 5.0
"""For each step."""

_ENCRYPTED = "kafka.security.protocol to SSL or SASL_SSL"
_BARE = "kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What happened at an address, and what to do."""

    found: str
    fix: str


class Unreachable(Refusal):
    """Nobody answers there: a name, a network, a server that is away or hangs. Nothing was refused."""


class NoToken(Refusal):
    """There is no token to come with: the provider is away, or refuses, or gives one that is of no use."""


async def why_all_refused(brokers: Brokers) -> list[Refusal]:
    """Why each address does not let a client in; none when one of them does. Bounded; never raises.

    Where one does, the addresses that the brokers advertise are looked at: a client goes on at those.
    """
    addresses = _addresses(brokers)
    found = await asyncio.gather(*(why_refused(address, brokers.security) for address in addresses))
    if None in found:
        found = await why_advertised_refused(brokers)
    return [] if None in found else [refusal for refusal in found if refusal is not None]


async def why_advertised_refused(brokers: Brokers) -> list[Refusal | None]:
    """Of each address that the brokers advertise why it does not let a client in, None where it does.

    Empty when no broker says what they are. Bounded; never raises.
    """
    for address in _addresses(brokers):
        advertised = await _advertised(address, brokers.security)
        if advertised:
            found = await asyncio.gather(*(why_refused(one, brokers.security) for one in advertised))
            return [refusal and _as_advertised(refusal, address) for refusal in found]
    return []


def _as_advertised(refusal: Refusal, by: str) -> Refusal:
    return replace(
        refusal,
        found=f"{by} answers, and sends clients on to {refusal.found}",
        fix="set the brokers' advertised.listeners to names and ports that can be reached from here; or, at that "
        f"address: {refusal.fix}",
    )


def _addresses(brokers: Brokers) -> list[str]:
    return [address.strip() for address in brokers.bootstrap_servers.split(",")]


async def _advertised(address: str, security: KafkaSecurity) -> list[str]:
    """Where the broker at this address says that the brokers are, as host:port; none when it does not say."""
    host, _, port = address.rpartition(":")
    try:
        connection = await _connect(host.strip("[]"), int(port), security)
    except (Unusable, KafkaError, OSError, TimeoutError, ValueError):
        return []
    try:
        async with asyncio.timeout(STEP_SECONDS):
            answer = await connection.send(MetadataRequest([]))
    except (KafkaError, TimeoutError):
        return []
    finally:
        connection.close()
    return [f"[{name}]:{at}" if ":" in name else f"{name}:{at}" for _, name, at, *_ in answer.brokers]


async def why_refused(address: str, security: KafkaSecurity) -> Refusal | None:
    """None when a client can connect, say who it is, and is answered. `address`: host:port. Bounded; never raises."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return Refusal(f"{address}: not of the form host:port", "write kafka.bootstrap_servers as host:port,host:port")
    host = host.strip("[]")
    refusal = await _try_network(host, int(port))
    if refusal is None and security.protocol.encrypted:
        refusal = await _try_tls(host, int(port), security)
    if refusal is None and security.sasl_mechanism is SaslMechanism.OAUTHBEARER:
        refusal = await _try_token(security)
    if refusal is None:
        refusal = await _try_kafka(host, int(port), security)
    return None if refusal is None else replace(refusal, found=f"{address}: {refusal.found}")


async def _try_network(host: str, port: int) -> Refusal | None:
    listening = "start the broker, or set kafka.bootstrap_servers to where it listens"
    try:
        await _dial(host, port, None)
    except socket.gaierror as error:
        return Unreachable(
            f"the name {host} does not resolve ({error.strerror})",
            "set kafka.bootstrap_servers to names that resolve here",
        )
    except TimeoutError:
        return Unreachable(
            f"no answer in {STEP_SECONDS:g} s", f"{listening}; a firewall or network policy may be between"
        )
    except OSError as error:
        return Unreachable(os.strerror(error.errno) if error.errno else str(error), listening)
    return None


async def _try_tls(host: str, port: int, security: KafkaSecurity) -> Refusal | None:
    try:
        await _dial(host, port, connection_options(security)["ssl_context"])
    except Unusable as unusable:
        return Refusal(f"kafka.security: {unusable}", "mount the file, or set its name right")
    except ssl.SSLCertVerificationError as error:
        return distrusted(error, security, "kafka.security", "kafka.bootstrap_servers")
    except (OSError, TimeoutError) as error:
        if await _speaks_kafka(host, port):
            return Refusal(
                f"does not speak TLS, which {security.protocol} asks for", f"set {_BARE}, or take its TLS port"
            )
        kind = Unreachable if isinstance(error, TimeoutError) else Refusal
        return kind(
            f"the TLS handshake failed: {error or type(error).__name__}",
            "compare the TLS versions and ciphers of both sides; the broker's log says more",
        )
    return None


async def _try_token(security: KafkaSecurity) -> Refusal | None:
    """Before the broker is asked with one: a silent provider must not look like a silent broker."""
    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            await connection_options(security)["sasl_oauth_token_provider"].token()
    except Unusable as unusable:
        return Refusal(f"kafka.security: {unusable}", "set it right, or install what it names")
    except TimeoutError:
        # Others were before it, each with a time of its own.
        return _no_token(f"no token: no answer in {TOKEN_SECONDS:g} s")
    except TokenUnavailable as unavailable:
        return _no_token(unavailable.args[0])
    return None


def _no_token(found: str) -> NoToken:
    return NoToken(found, "see to it that the token provider answers and knows this client")


async def _try_kafka(host: str, port: int, security: KafkaSecurity) -> Refusal | None:
    try:
        connection = await _connect(host, port, security)
    except (Unusable, KafkaError, OSError, TimeoutError) as error:
        if not security.protocol.encrypted and await _speaks_tls(host, port):
            return Refusal(f"speaks TLS, which {security.protocol} does not", f"set {_ENCRYPTED}")
        return _not_let_in(error, security)
    try:
        async with asyncio.timeout(STEP_SECONDS):
            await connection.send(MetadataRequest([]))
    except (KafkaError, TimeoutError) as error:
        if not security.protocol.uses_sasl and isinstance(error.__cause__, asyncio.IncompleteReadError):
            with_sasl = SecurityProtocol.SASL_SSL if security.protocol.encrypted else SecurityProtocol.SASL_PLAINTEXT
            return Refusal(
                "closes the connection at the first request, as a listener does that asks for SASL",
                f"set kafka.security.protocol to {with_sasl}, and sasl_mechanism and credentials",
            )
        return _not_let_in(error, security)
    finally:
        connection.close()
    return None


def _not_let_in(error: Exception, security: KafkaSecurity) -> Refusal:
    found = f"accepts connections but does not answer like a Kafka broker ({error!r})"
    fix = "set kafka.bootstrap_servers to where a broker listens"
    match error:
        case TimeoutError():
            return Unreachable(found, fix)
        case Unusable():
            found, fix = f"kafka.security: {error}", "set it right, or mount the file"
        case TokenUnavailable():
            return _no_token(error.args[0])
        case SaslAuthenticationFailed():
            return _not_authenticated(error, security)
        case UnsupportedSaslMechanismError():
            found = f"does not offer the mechanism {security.sasl_mechanism}"
            fix = "set kafka.security.sasl_mechanism to one of the listener's sasl.enabled.mechanisms"
        case IllegalSaslStateError():
            without = SecurityProtocol.SSL if security.protocol.encrypted else SecurityProtocol.PLAINTEXT
            found = f"has no SASL at this port, which {security.protocol} asks for"
            fix = f"set kafka.security.protocol to {without}, or take its SASL port"
        case KafkaError() if isinstance(error.__cause__, ssl.SSLError):
            alert = (error.__cause__.reason or str(error.__cause__)).replace("_", " ").lower()
            given = security.certificate_file
            asks = "asks for a client's certificate" if given is None else f"does not accept the certificate of {given}"
            found = f"{asks} ({alert})"
            fix = (
                "set kafka.security.certificate_file and key_file to one that is in time, and signed by an authority "
                "that the broker trusts"
            )
    return Refusal(found, fix)


def _not_authenticated(error: SaslAuthenticationFailed, security: KafkaSecurity) -> Refusal:
    reason = f"by {security.sasl_mechanism}: {', '.join(map(str, error.args))}"
    if security.sasl_mechanism is SaslMechanism.OAUTHBEARER:
        claims = connection_options(security)["sasl_oauth_token_provider"].claims()
        said = f"; the token says of itself: {claims}" if claims else ""
        return Refusal(
            f"refuses the token {reason}{said}",
            "have the token made for these brokers: audience, issuer, scope; in time",
        )
    return Refusal(
        f"refuses the user {security.username} {reason}",
        "set kafka.security.username and password_file right, or create the user on the brokers",
    )


async def _connect(host: str, port: int, security: KafkaSecurity) -> AIOKafkaConnection:
    async with asyncio.timeout(STEP_SECONDS):
        return await create_conn(host, port, client_id="scorestream-check", **connection_options(security))


async def _speaks_kafka(host: str, port: int) -> bool:
    """Without TLS; so does a listener that then asks for SASL."""
    try:
        connection = await _connect(host, port, PLAINTEXT)
    except (KafkaError, OSError, TimeoutError):
        return False
    connection.close()
    return True


async def _speaks_tls(host: str, port: int) -> bool:
    """Whoever it is, and whomever it asks for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        await _dial(host, port, context)
    except (OSError, TimeoutError):
        return False
    return True


async def _dial(host: str, port: int, context: ssl.SSLContext | None) -> None:
    async with asyncio.timeout(STEP_SECONDS):
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.close()


def distrusted(
    error: ssl.SSLCertVerificationError, security: KafkaSecurity | RedisSecurity, section: str, address: str
) -> Refusal:
    """A server's certificate that does not pass; `section` and `address`: the settings of files and server."""
    found = f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if "mismatch" in error.verify_message:
        return Refusal(
            found,
            f"set {address} to a name that stands in the certificate, or have a certificate made for this one; "
            f"{section}.check_hostname=false gives the check up",
        )
    if "expired" in error.verify_message or "not yet valid" in error.verify_message:
        return Refusal(found, "renew the server's certificate, or set this machine's clock right")
    trusted = "the system's authorities" if security.ca_file is None else str(security.ca_file)
    return Refusal(found, f"set {section}.ca_file to the authority that signed it; {trusted} did not")
