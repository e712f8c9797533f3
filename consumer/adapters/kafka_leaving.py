"""How a member leaves the group, also while it still joins: with aiokafka's private attributes, as kafka_internals.

A join is answered only when all other members have given up their partitions, which takes as long as the slowest of
their requests. aiokafka waits for that answer before it leaves, and leaves only what was answered. A member that ends
instead stays in the group until its session expires, and the partitions that it is then given stay silent.

The coordinator gives a dynamic member its id before it lets it wait (KIP-394, Apache Kafka 2.2), and with that id the
member can leave. Not on the connection on which it joins: a broker answers the requests of one connection in order.
"""
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError, NoError, UnknownMemberIdError, for_code
from aiokafka.protocol.group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

_AGAIN_SECONDS = 0.1
"""Between two attempts to leave."""
_END_SECONDS = 1.0
"""For the client's own tasks to end."""


async def leave_group(consumer: AIOKafkaConsumer, timeout_seconds: float) -> str | None:
    """End the membership, and every join under way; None when the group no longer counts this member in.

    Else why it still may: the client is then not to be used any more either. A static member is not to leave, and a
    client that never started has nothing to leave: None. Never raises; takes at most a second more than the timeout.
    """
    coordinator = consumer._coordinator
    if coordinator is None or coordinator._closing.done():
        return None
    coordinator._closing.set_result(None)
    _join_no_more(coordinator)
    last: list[KafkaError] = []
    try:
        if coordinator._group_instance_id is None:
            async with asyncio.timeout(timeout_seconds):
                await _take_leave(consumer, last)
    except TimeoutError:
        return f"no answer in {timeout_seconds:g} s" + (f", at last {last[-1]!r}" if last else "")
    except KafkaError as refused:
        return repr(refused)
    finally:
        await _end_tasks(coordinator)
    return None


async def _take_leave(consumer: AIOKafkaConsumer, failures: list[KafkaError]) -> None:
    """Raises the KafkaError that no further attempt would change; the others are appended."""
    coordinator = consumer._coordinator
    if not coordinator.member_id:
        # Either it is not joining, or the coordinator is about to answer with the id; there is no second question.
        await asyncio.wait([coordinator._coordination_task])
    if not coordinator.member_id:
        return
    request = LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
    while True:
        try:
            await _send(consumer, request)
        except KafkaError as failure:
            if not failure.retriable:
                raise
            failures.append(failure)
            coordinator.coordinator_id = None
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return


async def _send(consumer: AIOKafkaConsumer, request: LeaveGroupRequest) -> None:
    """Raises KafkaError, but not when there is no such member: that is what was asked for."""
    client, coordinator = consumer._client, consumer._coordinator
    node = coordinator.coordinator_id
    if node is None:
        node = await client.coordinator_lookup(CoordinationType.GROUP, coordinator.group_id)
    answer = await client.send(node, request, group=ConnectionGroup.DEFAULT)
    error = for_code(answer.error_code)
    if error not in (NoError, UnknownMemberIdError):
        raise error()


def _join_no_more(coordinator: Any) -> None:
    """Send no further request of a join. The one that is under way may be answered with this member's id."""
    send = coordinator._send_req

    async def refuse_joins(request: Any) -> Any:
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            raise GroupCoordinatorNotAvailableError("this member leaves")
        return await send(request)

    coordinator._send_req = refuse_joins


async def _end_tasks(coordinator: Any) -> None:
    """Those that a join, or a coordinator that is away, would hold up."""
    tasks = (coordinator._coordination_task, coordinator._heartbeat_task, coordinator._commit_refresh_task)
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_END_SECONDS)
