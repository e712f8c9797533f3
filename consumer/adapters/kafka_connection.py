"""Encryption and credentials of the worker's Kafka clients, and what keeps them from connecting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from consumer.adapters import kafka_internals
from consumer.errors import SettingsInvalid
from consumer.sections import KafkaSettings
from producer_tools.connections.files import Unusable
from producer_tools.connections.kafka import Brokers
from producer_tools.connections.passwords import password_of
from producer_tools.connections.refusal import Refusal, Unreachable, why_all_refused

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


class BrokersUnreachable(KafkaConnectionError):  # type: ignore[misc]  # aiokafka is untyped
    """No address answers. Any other error of a connection is a refusal."""


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
            log.warning("tried again until it works", what=what, reason=repr(error))

    def refused(self) -> str | None:
        """In the broker's words; None when it refuses nothing."""
        return "; ".join(f"{what}: {error!r}" for what, error in self._errors.items() if not _away(error)) or None

    def unreachable(self) -> str | None:
        """Why no broker answers; None when one does."""
        return next((str(error) for error in self._errors.values() if _away(error)), None)


def _away(error: Exception) -> bool:
    return isinstance(error, BrokersUnreachable)


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
            found = "; ".join(one.found for one in refused)
            away = all(isinstance(one, Unreachable) for one in refused)
            self._note(BrokersUnreachable(found) if away else KafkaConnectionError(found))
