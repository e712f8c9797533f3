"""What adapters have found out about the servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from consumer.finding import Finding, refuse
from consumer.sections import KafkaSettings

__all__ = [
    "CLIENT_ID",
    "Finding",
    "GroupFacts",
    "GroupMember",
    "KafkaFacts",
    "PrefixClaim",
    "RedisFacts",
    "RedisRefused",
    "Right",
    "TopicFacts",
    "Unreachable",
    "refuse",
]

CLIENT_ID = "scorestream"
"""Of every worker's clients: by it the members of a group are known for workers."""
_NAMED = 5
"""So many strangers are named."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A server that did not answer or does not let us in; `reason` names each address tried and what happened there."""

    reason: str
    fix: str = ""
    """Where it is known better than that something should be there."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the broker describes it. None: the broker does not let us read it."""

    partitions: int
    cleanup_policy: str | None
    max_message_bytes: int | None


@dataclass(frozen=True, slots=True)
class Right:
    """`operation` on a `kind` (topic, group) of that name; all in the words of kafka-acls.sh."""

    operation: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """As it names itself, and the address that the broker sees."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The consumer group. `kind`: consumer, connect, share and the like; empty where there is none.

    `protocol`: how it divides the partitions. `members`: None where the broker does not name those of such a kind.
    """

    kind: str
    protocol: str
    members: tuple[GroupMember, ...] | None

    @property
    def has_workers(self) -> bool:
        """Whether a worker is in it, so that another one can join."""
        return any(one.client_id == CLIENT_ID for one in self.members or ())

    def strangers(self) -> str | None:
        """Who is there that is no worker, in words; None if nobody is."""
        if self.members is None:
            return f"it is of the kind {self.kind}, which no worker can join"
        others = [f"{one.client_id} at {one.host.lstrip('/')}" for one in self.members if one.client_id != CLIENT_ID]
        if not others:
            return None
        protocol = f", by the protocol {self.protocol}" if self.protocol else ""
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        return f"its members ({self.kind}{protocol}) are not all workers: {', '.join(others[:_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """The cluster as it is. `topics`: those that exist; session timeout bounds in ms, None where not readable.

    `group`: None where the broker does not let us see it.
    """

    cluster_id: str
    topics: Mapping[str, TopicFacts]
    min_session_timeout_ms: int | None = None
    max_session_timeout_ms: int | None = None
    missing_rights: tuple[Right, ...] = ()
    group: GroupFacts | None = GroupFacts("", "", ())

    def prefix_owner(self, kafka: KafkaSettings) -> str:
        """Who owns the key prefix: one (cluster, topic, group)."""
        return f"{self.cluster_id}/{kafka.request_topic}/{kafka.group_id}"


@dataclass(frozen=True, slots=True)
class PrefixClaim:
    """Who claims a key prefix. `seen_seconds`: ago, that one of its workers was there; None where that is not known."""

    prefix: str
    owner: str
    seen_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """Redis as it is. `claims`: of all key prefixes, None where they cannot be read.

    `max_memory_bytes`: 0 where there is no limit; of all primaries of a cluster.
    """

    version: str
    claims: tuple[PrefixClaim, ...] | None = ()
    max_memory_bytes: int = 0
    own_memory_bytes: int = 0
    """What Redis takes without any key; of all primaries of a cluster."""
    free_memory_bytes: int | None = None
    """What is left of maxmemory now, in the fullest primary; None where there is no limit."""
    eviction_policy: str = "unknown"
    forbidden: tuple[tuple[str, str], ...] = ()
    """Commands that the worker needs and its user may not run, each with the key, or the keys, it needs it for."""
    mode: str = "standalone"
    """standalone, cluster or sentinel: what answers at the address."""
    role: str = "master"
    """master or slave, in Redis's words."""


@dataclass(frozen=True, slots=True)
class RedisRefused:
    """Redis answered and does not let us in, or not run what we need; `reason` in its own words."""

    reason: str
    fix: str = ""
    """Where it is not the user or his rights."""
