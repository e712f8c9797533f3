"""When the workers that a tool has started share the topic among them."""

from __future__ import annotations

import asyncio

from aiokafka.admin import AIOKafkaAdminClient

from producer_tools.console import ToolFailure

GROUP_ID = "scorestream-bench"
JOIN_SECONDS = 120.0
LOOK_SECONDS = 0.1
_STABLE = "Stable"


async def until_joined(bootstrap_servers: str, group_id: str, members: int) -> None:
    """Return when the group has so many members and gives its partitions to them.

    A worker that runs may still be joining. Under load that would be a rebalance in which the others commit, which the
    embedded broker (0.2.3) refuses: aiokafka then joins under a new name, and the broker waits for the old one forever.
    Raises ToolFailure when it takes too long, KafkaError.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        async with asyncio.timeout(JOIN_SECONDS):
            while await _stands(admin, group_id) != (_STABLE, members):  # noqa: ASYNC110 -- brokers do not tell
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise ToolFailure(f"{members} workers did not join the group within {JOIN_SECONDS:g} s") from None
    finally:
        await admin.close()


async def _stands(admin: AIOKafkaAdminClient, group_id: str) -> tuple[str, int]:
    """The group's state, and how many members it has."""
    [answer] = await admin.describe_consumer_groups([group_id])
    [(_error, _group, state, _type, _protocol, members, *_)] = answer.groups
    return state, len(members)
