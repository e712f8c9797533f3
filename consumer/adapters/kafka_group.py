"""Who is in the consumer group, asked of its coordinator without joining.

DescribeGroups knows groups of the classic protocol alone: of others it says that they are dead. A consumer group of the
new protocol (KIP-848) has a request of its own; of share and streams groups there is only the list.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    IncompatibleBrokerVersion,
    KafkaError,
    NoError,
    for_code,
)
from aiokafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from consumer.sections import KafkaSettings
from consumer.startup import GroupFacts, GroupMember, group_fix, group_taken

Ask = Callable[[Any], Awaitable[Any]]
"""The coordinator's answer to a request. Raises KafkaError."""

_DEAD = "Dead"
_NO_SUCH_GROUP = 69
_PASSING = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError)
_AGAIN_SECONDS, _TRIES = 0.3, 10


async def describe_group(ask: Ask, group: str) -> GroupFacts | None:
    """The group as its coordinator knows it; None where this client may not see it. Raises KafkaError."""
    for _ in range(_TRIES):
        try:
            return await _described(ask, group)
        except GroupAuthorizationFailedError:
            return None
        except _PASSING:
            # A broker that has just started.
            await asyncio.sleep(_AGAIN_SECONDS)
    return None


async def _described(ask: Ask, group: str) -> GroupFacts:
    [(error_code, _, state, kind, protocol, members, *_)] = (await ask(DescribeGroupsRequest([group]))).groups
    # Newer brokers tell groups that they do not know by an error.
    if error_code != _NO_SUCH_GROUP:
        _raise(error_code)
    if state not in (_DEAD, "") and error_code == 0:
        return GroupFacts(kind, protocol, tuple(GroupMember(client, host) for _, client, host, *_ in members))
    listed = dict((await ask(ListGroupsRequest())).groups)
    if group not in listed:
        return GroupFacts("", "", ())
    return await _of_the_new_protocol(ask, group) or GroupFacts(listed[group], "", None)


async def _of_the_new_protocol(ask: Ask, group: str) -> GroupFacts | None:
    """None where it is none."""
    try:
        answer = await ask(_ConsumerGroupDescribe([group], False, {}))
    except (IncompatibleBrokerVersion, NotImplementedError):
        return None
    [described] = answer.groups
    error_code, assignor, members = described[0], described[6], described[7]
    if error_code == _NO_SUCH_GROUP:
        return None
    _raise(error_code)
    return GroupFacts("consumer", assignor, tuple(GroupMember(member[4], member[5]) for member in members))


async def why_not_let_in(ask: Ask, kafka: KafkaSettings, error: KafkaError, timeout_seconds: float) -> str:
    """In words, with the fix: what `error` has to do with who is in the group. Never raises."""
    strangers = None
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            group = await describe_group(ask, kafka.group_id)
            strangers = group and group.strangers()
    told = strangers or f"its members divide the partitions in a way that no worker does ({error!r})"
    return f"{group_taken(kafka, told)}: {group_fix(kafka)}"


def _raise(error_code: int) -> None:
    error = for_code(error_code)
    if error is not NoError:
        raise error


class _Uuid(AbstractType):  # type: ignore[misc]  # aiokafka is untyped
    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


_TEXT = CompactString("utf-8")
_ASSIGNMENT = Schema(
    (
        "partitions",
        CompactArray(
            ("topic_id", _Uuid), ("topic", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
        ),
    ),
    ("tags", TaggedFields),
)


class _ConsumerGroupDescribeResponse(Response):  # type: ignore[misc]
    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("group", _TEXT),
                ("state", _TEXT),
                ("epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor", _TEXT),
                (
                    "members",
                    CompactArray(
                        ("member_id", _TEXT),
                        ("instance_id", _TEXT),
                        ("rack_id", _TEXT),
                        ("epoch", Int32),
                        ("client_id", _TEXT),
                        ("client_host", _TEXT),
                        ("topics", CompactArray(_TEXT)),
                        ("topic_pattern", _TEXT),
                        ("assignment", _ASSIGNMENT),
                        ("target_assignment", _ASSIGNMENT),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ConsumerGroupDescribeStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 69
    API_VERSION = 0
    RESPONSE_TYPE = _ConsumerGroupDescribeResponse
    SCHEMA = Schema(("groups", CompactArray(_TEXT)), ("include_authorized_operations", Boolean), ("tags", TaggedFields))


class _ConsumerGroupDescribe(Request[_ConsumerGroupDescribeStruct]):  # type: ignore[misc]
    API_KEY = 69

    def __init__(self, *fields: object) -> None:
        self._fields: Sequence[object] = fields

    def build(self, request_struct_class: type[_ConsumerGroupDescribeStruct]) -> _ConsumerGroupDescribeStruct:
        return request_struct_class(*self._fields)
