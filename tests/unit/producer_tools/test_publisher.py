"""What a tool says that it published."""

import asyncio
from unittest.mock import create_autospec

from aiokafka import AIOKafkaProducer

from producer_tools.kafka import Publisher


async def test_a_record_that_was_acknowledged_before_anyone_waited_for_it_is_counted_and_named() -> None:
    """As it goes with a quick broker, and a tool that does something else meanwhile."""
    acknowledged = asyncio.get_running_loop().create_future()
    acknowledged.set_result(None)
    producer = create_autospec(AIOKafkaProducer, instance=True)
    producer.send.return_value = acknowledged
    names: list[str] = []
    publisher = Publisher(producer, names.append)
    await publisher.send("requests", b"{}", name="a")
    await publisher.flush()
    assert (publisher.acknowledged_records, names) == (1, ["a"])
