"""When the workers that a tool has started share the topic among them, on the embedded broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.group import LeaveGroupRequest

from producer_tools.console import ToolFailure

GROUP_ID = "scorestream-bench"
JOIN_SECONDS = 120.0
LOOK_SECONDS = 0.2
_STABLE = "Stable"


class _Group(NamedTuple):
    state: str
    members: Sequence[str]


async def until_joined(bootstrap_servers: str, group_id: str, workers: int) -> None:
    """Return when so many workers are the group's members and have their partitions.

    A worker that runs may still be joining: a rebalance, in which the others commit. The embedded broker (0.2.3)
    refuses that, aiokafka then joins under a new name, and the broker waits for the old one forever. So where it lists
    more members than there are workers, all are put out, and join anew. Raises ToolFailure when it takes too long,
    KafkaError.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        async with asyncio.timeout(JOIN_SECONDS):
            while (group := await _look(admin, group_id)).state != _STABLE or len(group.members) != workers:
                if len(group.members) > workers:
                    await _put_out(admin, group_id, group.members)
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise ToolFailure(f"{workers} workers did not join the group within {JOIN_SECONDS:g} s") from None
    finally:
        await admin.close()


async def _look(admin: AIOKafkaAdminClient, group_id: str) -> _Group:
    [answer] = await admin.describe_consumer_groups([group_id])
    [(_error, _name, state, _type, _protocol, members, *_)] = answer.groups
    return _Group(state, [member[0] for member in members])


async def _put_out(admin: AIOKafkaAdminClient, group_id: str, members: Sequence[str]) -> None:
    # The client has no call of its own for it.
    coordinator = await admin.find_coordinator(group_id)
    for member in members:
        await admin._send_request(LeaveGroupRequest(group_id, member), coordinator)  # noqa: SLF001
