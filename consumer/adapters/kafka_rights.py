"""Whether the brokers let this worker do its work, and who else does it. Asked for by requests that change nothing.

A broker looks at rights first. So a partition that cannot exist is read and written: with the right, the answer is that
there is no such partition. A heartbeat of a member that cannot exist asks for the right to be in the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from consumer.adapters.kafka_connection import client_options
from consumer.adapters.kafka_group import describe_group
from consumer.sections import KafkaSettings
from consumer.startup.facts import GroupFacts, Right

_NO_SUCH_PARTITION = 2**31 - 1
_NO_SUCH_MEMBER = "scorestream-check"
_WAIT_MS = 1000
_ASK_SECONDS = 10.0


async def rights_and_group(kafka: KafkaSettings, topics: Iterable[str]) -> tuple[tuple[Right, ...], GroupFacts | None]:
    """Rights that the brokers refuse, on the group and on those `topics` that exist; and who is in the group.

    Raises KafkaError, TimeoutError.
    """
    client = AIOKafkaClient(**client_options(kafka), client_id="scorestream-check")
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            await client.bootstrap()
            asked = [(_reads, Right("Read", "topic", kafka.request_topic))]
            asked += [(_writes, Right("Write", "topic", one)) for one in (kafka.result_topic, kafka.dead_letter_topic)]
            there = set(topics)
            refused = [right for may, right in asked if right.name in there and not await may(client, right.name)]
            if not await _may_be_member(client, kafka.group_id):
                refused.append(Right("Read", "group", kafka.group_id))
                return tuple(refused), None
            return tuple(refused), await describe_group(
                partial(_ask_coordinator, client, kafka.group_id), kafka.group_id
            )
    finally:
        await client.close()


async def _reads(client: AIOKafkaClient, topic: str) -> bool:
    request = FetchRequest(_WAIT_MS, 0, 1, 0, [(topic, [(_NO_SUCH_PARTITION, 0, 1)])])
    return _allowed(await client.send(client.get_random_node(), request))


async def _writes(client: AIOKafkaClient, topic: str) -> bool:
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1000,
    )
    batch.append(0, timestamp=0, key=None, value=b"", headers=[])
    request = ProduceRequest(None, -1, _WAIT_MS, [(topic, [(_NO_SUCH_PARTITION, bytes(batch.build()))])])
    return _allowed(await client.send(client.get_random_node(), request))


async def _ask_coordinator(client: AIOKafkaClient, group: str, request: Any) -> Any:
    return await client.send(await client.coordinator_lookup(CoordinationType.GROUP, group), request)


async def _may_be_member(client: AIOKafkaClient, group: str) -> bool:
    try:
        coordinator = await client.coordinator_lookup(CoordinationType.GROUP, group)
        answer = await client.send(coordinator, HeartbeatRequest(group, 0, _NO_SUCH_MEMBER))
    except GroupAuthorizationFailedError:
        return False
    except KafkaError as error:
        if not error.retriable:
            raise
        # A broker that has just started has no coordinators yet; that is not about rights.
        return True
    return for_code(answer.error_code) is not GroupAuthorizationFailedError


def _allowed(answer: Any) -> bool:
    """Of an answer about one partition of one topic."""
    [(_topic, [(_partition, error_code, *_rest)])] = answer.topics
    return for_code(error_code) is not TopicAuthorizationFailedError
