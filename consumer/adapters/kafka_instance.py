"""Static membership, as far as aiokafka lacks it: whether another member has taken this one's instance id.

aiokafka names the instance when it joins, not in its heartbeats and commits. The broker answers those of a displaced
member as it answers a member whose session has expired; the client then joins again, and displaces the other.
A heartbeat that does name the instance (KIP-345) tells the two apart.
"""

from __future__ import annotations

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import BrokerResponseError, KafkaError, for_code, kafka_errors
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Int16, Int32, Schema, String

from consumer.adapters import kafka_internals

_HEARTBEAT_KEY = 12


class FencedInstanceIdError(BrokerResponseError):  # type: ignore[misc]  # aiokafka is untyped
    """Another member has this instance id now."""

    errno = 82
    message = "FENCED_INSTANCE_ID"


# The client does not know this code, and would tell of an unknown error.
kafka_errors[FencedInstanceIdError.errno] = FencedInstanceIdError


class _HeartbeatResponse(Response):  # type: ignore[misc]
    API_KEY = _HEARTBEAT_KEY
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class _HeartbeatStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = _HEARTBEAT_KEY
    API_VERSION = 3
    RESPONSE_TYPE = _HeartbeatResponse
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class _InstanceHeartbeat(Request[_HeartbeatStruct]):  # type: ignore[misc]
    API_KEY = _HEARTBEAT_KEY

    def __init__(self, *fields: object) -> None:
        self._fields = fields

    def build(self, request_struct_class: type[_HeartbeatStruct]) -> _HeartbeatStruct:
        return request_struct_class(*self._fields)


async def instance_is_taken(
    consumer: AIOKafkaConsumer, group_id: str, group_instance_id: str, generation: int, member_id: str
) -> bool:
    """Whether another member than this one has the instance id now. Raises KafkaError."""
    heartbeat = _InstanceHeartbeat(group_id, generation, member_id, group_instance_id)
    answer = await kafka_internals.ask_coordinator(consumer, heartbeat)
    return for_code(answer.error_code) is FencedInstanceIdError


def tells_of_taken_instance(error: KafkaError) -> bool:
    """Whether a refusal of JoinGroup or SyncGroup says so: the client wraps its repr in an error of its own."""
    return FencedInstanceIdError.__name__ in str(error)
