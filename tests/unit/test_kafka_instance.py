"""A broker that refuses a static member because another has its instance id, and how the client tells of it."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
from aiokafka.errors import KafkaError

from consumer.adapters.kafka_instance import FencedInstanceIdError, tells_of_taken_instance
from consumer.adapters.kafka_source import KafkaSource
from consumer.errors import SettingsInvalid
from consumer.sections import KafkaSettings

JOINED = SimpleNamespace(error_code=0, member_id="b", generation_id=1, group_protocol="range", leader_id="a")
FENCED = SimpleNamespace(error_code=FencedInstanceIdError.errno)
UNKNOWN_TO_CLIENTS = SimpleNamespace(error_code=9999)


async def client_s_error(*answers: Any) -> KafkaError:
    """What the client raises when a broker answers its requests to join so."""
    coming = iter(answers)

    async def answer(_request: object) -> Any:
        return next(coming)

    coordinator = SimpleNamespace(
        generation=1,
        member_id="b",
        _group_instance_id="same",
        _rebalance_timeout_ms=1000,
        _send_req=answer,
        request_rejoin=lambda: None,
    )
    subscription = SimpleNamespace(topics={"score.requests"}, active=True)
    assignor = SimpleNamespace(name="range", metadata=lambda _topics: b"")
    joining = CoordinatorGroupRebalance(coordinator, "group", 0, subscription, [assignor], 1000, 1)
    with pytest.raises(KafkaError) as raised:
        await joining.perform_group_join()
    return raised.value


@pytest.mark.parametrize("answers", [[FENCED], [JOINED, FENCED]], ids=["JoinGroup", "SyncGroup"])
async def test_a_refusal_because_of_the_instance_id_is_one_of_the_settings(answers: list[Any]) -> None:
    error = await client_s_error(*answers)
    assert tells_of_taken_instance(error)
    source = KafkaSource(KafkaSettings(group_instance_id="same"), operation_timeout_seconds=1)
    assert not await source._passes(error)
    with pytest.raises(SettingsInvalid, match=r"kafka\.group_instance_id same is in use by another worker"):
        await source._read({}, lambda *_received: None, 0)
    await source._consumer.stop()


@pytest.mark.parametrize("answers", [[UNKNOWN_TO_CLIENTS], [JOINED, UNKNOWN_TO_CLIENTS]])
async def test_another_refusal_does_not_speak_of_it(answers: list[Any]) -> None:
    assert not tells_of_taken_instance(await client_s_error(*answers))
