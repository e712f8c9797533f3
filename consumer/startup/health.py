"""What is looked at of the port, or the socket, on which a worker's health is asked."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.finding import Finding
from consumer.sections import HealthSettings


@dataclass(frozen=True, slots=True)
class Free:
    """A worker can listen there."""


@dataclass(frozen=True, slots=True)
class OurWorker:
    """A worker, or a supervisor, answers there."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody else listens there. `who`: as far as it can be seen."""

    who: str


@dataclass(frozen=True, slots=True)
class Unusable:
    """Nobody listens there, and nobody can."""

    reason: str
    fix: str = ""
    """Where the reason does not say it."""


HealthPort = Free | OurWorker | Stranger | Unusable


def check_health_port(health: HealthSettings, port: HealthPort) -> list[Finding]:
    """None where there is neither port nor socket."""
    if health.unix_socket is None and health.port == 0:
        return []
    name, place = ("health.unix_socket", "path") if health.unix_socket else ("health.port", "port")
    where = place_of(health)
    match port:
        case Free():
            return [Finding(name, ok=True, found=f"{where} is free")]
        case OurWorker():
            found = f"a worker answers on {where} already; a second one on this machine needs another {place}"
            return [Finding(name, ok=True, found=found)]
        case Stranger(who):
            fix = f"end it, or set {name} to another {place}"
            return [Finding(name, ok=False, found=f"{who} listens on {where}, and is no worker", fix=fix)]
        case Unusable(reason, fix):
            return [Finding(name, ok=False, found=reason, fix=fix)]


def place_of(health: HealthSettings) -> str:
    """Where it is asked, in words."""
    return health.unix_socket or f"port {health.port} of {health.host or 'all addresses'}"
