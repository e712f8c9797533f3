"""A consumer that was told of no broker could never join."""

from types import SimpleNamespace

import pytest

from consumer.adapters.kafka_source import KafkaSource
from consumer.errors import DependencyUnavailable
from consumer.sections import KafkaSettings


class ToldOfNobody:
    """The client after a broker that has only just started answered with an empty list."""

    def __init__(self) -> None:
        self._client = SimpleNamespace(get_random_node=lambda: None)
        self.stopped = False

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        self.stopped = True


async def nothing(_partitions) -> None:
    pass


async def test_a_broker_that_knows_of_no_broker_yet_is_one_that_does_not_answer():
    source = KafkaSource(KafkaSettings(), operation_timeout_seconds=1)
    await source._consumer.stop()
    source._consumer = consumer = ToldOfNobody()
    with pytest.raises(DependencyUnavailable, match="knows of no broker yet"):
        await source.join(nothing, nothing)
    assert consumer.stopped
