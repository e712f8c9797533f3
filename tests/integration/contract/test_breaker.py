"""A broken deployment does not drain the topic into the dead letters: the breaker holds the partition, no other."""

import json

import pytest

from tests.integration.contract.deployment import deployed
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

WINDOW = 10
SCORE = {"task": "score", "query": "q", "document": "d"}


def requests(name: str, **fields: object) -> list[bytes]:
    return [json.dumps({"id": f"{name} {number}"} | SCORE | fields).encode() for number in range(3 * WINDOW)]


async def test_a_deployment_that_fails_everything_is_held_until_it_is_mended(
    kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Clients' faults and passed deadlines hold nothing; the right model answers all that was held, in its place."""
    breaker = {"breaker.window_records": WINDOW, "breaker.probe_seconds": 0.2}
    async with deployed(kafka, redis, tmp_path_factory.mktemp("breaker"), breaker) as broken:
        await broken.publish(*requests("client", topn=1), *requests("late", timeout_ms=1), partition=1)
        await broken.result("late 29")
        await broken.publish(*requests("held", model="the next one"), partition=0)
        await broken.worker.wait_for_event("held by the breaker")
        await broken.publish(*requests("beside"), partition=2)
        await broken.result("beside 29")
        assert await broken.worker.stop() == 0
        mended = WorkerProcess(broken.folder, broken.settings | {"engine.served_names": "the next one"})
        await mended.start()
        await broken.result("held 29")
        assert await mended.stop() == 0
        messages = [one.message for one in broken.results.records if one.partition == 0]
        assert [one["id"] for one in messages] == [f"held {number}" for number in range(3 * WINDOW)]
        refused = [one["status"] for one in messages].count("error")
        assert refused < WINDOW, "what opened the breaker is not answered"
        assert {one["status"] for one in messages[refused:]} == {"ok"}
