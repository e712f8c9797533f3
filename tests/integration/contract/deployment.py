"""One worker on topics of its own, used from outside."""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.integration.contract.outside import ANSWER_SECONDS, Headers, Record, Topic, publish, redis_cli
from tests.services.kafka import KafkaNode, create_topics
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

PARTITIONS = 4
ASK_AGAIN_SECONDS = 0.05
"""Between two looks at what cannot be waited for."""


@dataclass
class Deployment:
    """A worker, its topics as kcat follows them, its Redis. `settings` are the worker's."""

    kafka: KafkaNode
    redis: RedisNode
    folder: Path
    settings: dict[str, object]
    worker: WorkerProcess
    requests: Topic
    results: Topic
    dead_letters: Topic
    _publications: Iterator[int] = field(default_factory=count, init=False)

    async def publish(
        self, *values: bytes | None, partition: int = 0, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """One record for each value, in order, for a worker that runs."""
        assert self.worker.exit_code is None, self.worker.tail()
        folder = self.folder / f"published-{next(self._publications)}"
        servers, topic = self.kafka.bootstrap_servers, self.requests.name
        await publish(servers, topic, folder, values, partition=partition, key=key, headers=headers)

    async def result(self, request_id: str) -> Record:
        """The first result of this id."""
        return await self.results.first(lambda one: one.header("scorestream-id") == request_id, request_id)

    async def results_of(self, request_id: str, number: int) -> list[Record]:
        """The first so many results of this id."""

        def found() -> list[Record]:
            return [one for one in self.results.records if one.header("scorestream-id") == request_id]

        await self.results.until(lambda: len(found()) >= number, f"{number} results of {request_id}")
        return found()[:number]

    async def dead_letter(self, value: bytes) -> Record:
        """The first dead letter with this value."""
        return await self.dead_letters.first(lambda one: one.value == value, f"a dead letter {value[:200]!r}")

    def key(self, request_id: str) -> str:
        """Of the id in Redis."""
        return f"{self.settings['redis.prefix']}{request_id}"

    async def cached(self, request_id: str) -> bytes:
        """What Redis holds under the id."""
        return await redis_cli(self.redis, "GET", self.key(request_id))

    async def holds(self, request_id: str, value: bytes | None) -> None:
        """Wait until Redis holds these bytes: topic and cache are written at the same time. Raises TimeoutError."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while await self.cached(request_id) != value:  # noqa: ASYNC110 -- redis-cli cannot wait for it
                await asyncio.sleep(ASK_AGAIN_SECONDS)


async def make_topics(kafka: KafkaNode, name: str, configs: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Three topics; `configs` by their last word. Returns what their names begin with, which is unique."""
    base = f"contract.{name}.{uuid.uuid4().hex[:8]}"
    for word in ("requests", "results", "dead"):
        await create_topics(kafka.bootstrap_servers, {f"{base}.{word}": PARTITIONS}, (configs or {}).get(word))
    return base


def settings_on(kafka: KafkaNode, redis: RedisNode, base: str) -> dict[str, object]:
    """Settings of a worker with the scripted engine on the topics that `make_topics` made."""
    return {
        "kafka.bootstrap_servers": kafka.bootstrap_servers,
        "kafka.request_topic": f"{base}.requests",
        "kafka.result_topic": f"{base}.results",
        "kafka.dead_letter_topic": f"{base}.dead",
        "kafka.group_id": f"{base}.group",
        "redis.url": redis.url,
        "redis.prefix": f"{base}:",
        "engine.kind": "scripted",
    }


@asynccontextmanager
async def deployed(
    kafka: KafkaNode,
    redis: RedisNode,
    folder: Path,
    settings: Mapping[str, object] | None = None,
    configs: Mapping[str, Mapping[str, str]] | None = None,
) -> AsyncIterator[Deployment]:
    """A running worker with new topics, stopped in the end. A worker that then does not drain fails the test."""
    base = await make_topics(kafka, folder.name[:40], configs)
    merged = settings_on(kafka, redis, base) | dict(settings or {})
    topics = [Topic(kafka.bootstrap_servers, f"{base}.{word}") for word in ("requests", "results", "dead")]
    worker = WorkerProcess(folder, merged)
    for topic in topics:
        await topic.follow()
    try:
        await worker.start()
        yield Deployment(kafka, redis, folder, merged, worker, *topics)
        assert await worker.stop() == 0
    finally:
        if worker.exit_code is None:
            worker.send(signal.SIGKILL)
            await worker.wait()
        for topic in topics:
            await topic.stop()
