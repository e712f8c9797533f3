"""Encryption and credentials of the worker's Kafka clients, and what keeps them from connecting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from consumer.adapters import kafka_internals
from consumer.errors import Hindrance, SettingsInvalid
from consumer.sections import KafkaSettings
from producer_tools.connections.files import Unusable
from producer_tools.connections.kafka import Brokers
from producer_tools.connections.passwords import password_of
from producer_tools.connections.refusal import NoToken, Refusal, Unreachable, why_advertised_refused, why_all_refused

_LOOK_SECONDS = 1.0
"""Between two looks; what has no answer takes longer."""

log = structlog.get_logger()


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Keyword arguments of every client of aiokafka. Raises SettingsInvalid for a file that cannot be used."""
    try:
        return Brokers(kafka.bootstrap_servers, kafka.security).client_options
    except Unusable as unusable:
        raise SettingsInvalid(f"kafka.security: {unusable}") from unusable


def follow_credentials(kafka: KafkaSettings, member: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Let a client that has started use a password file as it is when it connects. Certificates and tokens do so."""
    if kafka.security.password_file is not None and kafka.security.token_endpoint is None:
        kafka_internals.renew_password(member, password_of(kafka.security))


async def refusals(kafka: KafkaSettings) -> list[Refusal]:
    """Why each address does not let this worker in; none when one of them does. Bounded; never raises."""
    return await why_all_refused(Brokers(kafka.bootstrap_servers, kafka.security))


async def refused_brokers(kafka: KafkaSettings) -> list[Refusal]:
    """Of the addresses that the brokers advertise those that do not let this worker in. Bounded; never raises."""
    return [
        refusal for refusal in await why_advertised_refused(Brokers(kafka.bootstrap_servers, kafka.security)) if refusal
    ]


class NotConnected(KafkaConnectionError):  # type: ignore[misc]  # aiokafka is untyped
    """No address lets this worker in. `why` not, address by address."""

    def __init__(self, refused: Sequence[Refusal]) -> None:
        self.why = "; ".join(one.found for one in refused)
        super().__init__(self.why)
        if all(isinstance(one, Unreachable) for one in refused):
            self.hindrance = Hindrance.BROKER_AWAY
        elif any(isinstance(one, NoToken) for one in refused):
            self.hindrance = Hindrance.TOKEN_UNAVAILABLE
        else:
            self.hindrance = Hindrance.AUTHENTICATION_FAILED


class Hindrances:
    """Why the broker was of no use when it was last asked, by what was asked for: the group, or reading."""

    def __init__(self) -> None:
        self._errors: dict[str, Exception] = {}

    def note(self, what: str, error: Exception | None) -> None:
        """None: it was of use. A change is logged, what stays the same is not."""
        before = self._errors.pop(what, None)
        if error is None:
            if before is not None:
                log.info("allowed again", what=what, before=repr(before))
            return
        self._errors[what] = error
        if repr(before) != repr(error):
            log.warning("tried again until it works", what=what, hindrance=_hindrance(error).value, reason=repr(error))

    def told(self) -> dict[Hindrance, str]:
        """Each in the broker's words; empty when it was of use. Of a client that is not connected only why not."""
        for error in self._errors.values():
            if isinstance(error, NotConnected):
                return {error.hindrance: error.why}
        refused = "; ".join(f"{what}: {error!r}" for what, error in self._errors.items())
        return {Hindrance.SOURCE_REFUSED: refused} if refused else {}


def _hindrance(error: Exception) -> Hindrance:
    return error.hindrance if isinstance(error, NotConnected) else Hindrance.SOURCE_REFUSED


class Connecting:
    """Finds out why a client cannot connect, while it cannot: a rotated password, a token provider that is away."""

    def __init__(self, kafka: KafkaSettings, note: Callable[[KafkaConnectionError | None], None]) -> None:
        self._kafka = kafka
        self._note = note
        self._looked_at = -inf
        self._looking: asyncio.Task[None] | None = None

    def told(self, connected: bool) -> None:  # noqa: FBT001 - what the client says
        """What the client says each time it needs a connection."""
        if connected:
            self._note(None)
        elif (self._looking is None or self._looking.done()) and monotonic() - self._looked_at > _LOOK_SECONDS:
            self._looked_at = monotonic()
            self._looking = asyncio.create_task(self._look())

    def end(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        if refused := await refusals(self._kafka):
            self._note(NotConnected(refused))
