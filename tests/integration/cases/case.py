"""One deployment, seen from outside: its topics, its workers, and what became of the requests."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaProducer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient

from producer_tools.connections.kafka import Brokers
from producer_tools.connections.redis import RedisServer
from producer_tools.verify.audit import Audit, audit
from producer_tools.verify.cache import Cache
from tests.chaos.fleet import Slot
from tests.chaos.judgement import TTL_SECONDS, Place
from tests.chaos.load import Load
from tests.chaos.offsets import CommittedOffsets
from tests.services.kafka import KafkaNode
from tests.services.reading import read_topic
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

PARTITIONS = 4
MAX_UNCOMMITTED_RECORDS, CHUNK_RECORDS = 40, 20
CATCH_UP_SECONDS = 60.0
SESSION_SECONDS = 3
REVOKE_SECONDS = 2
DRAIN_SECONDS = 8
QUICK: dict[str, object] = {
    "kafka.session_timeout_seconds": SESSION_SECONDS,
    "kafka.heartbeat_interval_seconds": 1,
    "kafka.rebalance_timeout_seconds": 10,
    "kafka.request_timeout_seconds": 15,
    "kafka.delivery_timeout_seconds": 5,
    "redis.timeout_seconds": 1,
    "limits.max_uncommitted_records": MAX_UNCOMMITTED_RECORDS,
    "limits.chunk_records": CHUNK_RECORDS,
    "commit.timeout_seconds": 0.5,
    "shutdown.revoke_seconds": REVOKE_SECONDS,
    "shutdown.drain_seconds": DRAIN_SECONDS,
}
"""Every time limit short, in the proportions that the settings ask for; small bounds, so that breaking one shows."""


class Case:
    """A deployment on one broker and one Redis. `settings` are every worker's, by their dotted names."""

    def __init__(self, kafka: KafkaNode, redis: RedisNode, name: str, folder: Path) -> None:
        self.kafka, self.redis = kafka, redis
        self.place = Place(kafka.bootstrap_servers, redis.url, name)
        self.folder = folder
        self.settings: dict[str, object] = QUICK | self.place.settings
        self.offsets = CommittedOffsets(kafka.bootstrap_servers, name, self.place.topics.requests)
        self.workers: list[WorkerProcess] = []

    def worker(self, name: str = "a", settings: Mapping[str, object] | None = None) -> WorkerProcess:
        """One more worker process, not started yet."""
        worker = WorkerProcess(self.folder / name, self.settings | dict(settings or {}))
        self.workers.append(worker)
        return worker

    async def started(self, name: str = "a", settings: Mapping[str, object] | None = None) -> WorkerProcess:
        """One more worker process that has joined the group."""
        worker = self.worker(name, settings)
        await worker.start()
        return worker

    def slot(self, name: str, settings: Mapping[str, object] | None = None) -> Slot:
        """A place for a worker that comes back whatever ends it; see `kept_up`."""
        folder = self.folder / name
        return Slot(name, folder, self.settings | dict(settings or {}), DRAIN_SECONDS + 7.0)

    def load(self, partitions: int, requests_per_second: float) -> Load:
        """Good and bad requests at a steady rate; see `under_load`."""
        return Load(self.kafka.bootstrap_servers, self.place.topics.requests, partitions, requests_per_second)

    def abandon(self) -> None:
        """SIGKILL to whatever still runs."""
        for worker in self.workers:
            if worker.exit_code is None:
                worker.send(signal.SIGKILL)

    async def publish(self, values: Iterable[bytes | None], partition: int = 0) -> None:
        """One record for each value, in order, acknowledged."""
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers, linger_ms=5)
        await producer.start()
        try:
            for value in values:
                await producer.send(self.place.topics.requests, value, key=b"key", partition=partition)
            await producer.flush()
        finally:
            await producer.stop()

    async def results(self, count: int, timeout_seconds: float = 60.0) -> list[ConsumerRecord]:
        """The first so many results, and whatever else has come; by partition in offset order. Raises TimeoutError."""
        return await read_topic(
            self.kafka.bootstrap_servers, self.place.topics.results, count, timeout_seconds=timeout_seconds
        )

    async def dead_letters(self, count: int, timeout_seconds: float = 60.0) -> list[ConsumerRecord]:
        """As `results`."""
        return await read_topic(
            self.kafka.bootstrap_servers, self.place.topics.dead_letters, count, timeout_seconds=timeout_seconds
        )

    async def until_all_committed(self, timeout_seconds: float = CATCH_UP_SECONDS) -> None:
        """Until the committed offsets are the ends of the request topic. Raises TimeoutError, telling both."""
        ends = await self.place.ends(self.place.topics.requests)
        await self.offsets.until(lambda committed: committed == ends, f"committed is {ends}", timeout_seconds)

    async def until_members(self, count: int) -> None:
        """Until the group is stable with so many members. Raises TimeoutError."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka.bootstrap_servers)
        await admin.start()
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while True:
                    [response] = await admin.describe_consumer_groups([self.place.name])
                    [group] = response.to_object()["groups"]
                    if group["state"] == "Stable" and len(group["members"]) == count:
                        return
                    await asyncio.sleep(0.1)
        finally:
            await admin.close()

    async def verified(self) -> Audit:
        """Complete, ordered and in Redis, by the product's own `verify`; asserts that it found nothing wrong."""
        servers, topics = self.kafka.bootstrap_servers, self.place.topics
        cache = Cache(RedisServer(self.redis.url), f"{self.place.name}:", TTL_SECONDS)
        found = await audit(Brokers(servers), topics, wait_seconds=0, cache=cache, note=lambda _text: None)
        assert not found.findings.counts, (found.findings.counts, found.findings.examples)
        return found

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[CommittedOffsets]:
        """The group's offsets, looked at all the time."""
        following = asyncio.create_task(self.offsets.follow(every_seconds=0.1))
        yield self.offsets
        following.cancel()


MakeCase = Callable[..., Awaitable[Case]]


@asynccontextmanager
async def kept_up(*slots: Slot) -> AsyncIterator[None]:
    """The slots are filled while this lasts."""
    keeping = [asyncio.create_task(slot.keep_up()) for slot in slots]
    try:
        await asyncio.gather(*(slot.until_running() for slot in slots))
        yield
    finally:
        for task, slot in zip(keeping, slots, strict=True):
            task.cancel()
            slot.abandon()


@asynccontextmanager
async def under_load(load: Load) -> AsyncIterator[None]:
    """Requests come while this lasts; afterwards every one is acknowledged."""
    loading = asyncio.create_task(load.run())
    yield
    load.stop()
    await loading


def request(name: str, document: str = "some words", **fields: object) -> bytes:
    """A score request; `document` may hold the scripted engine's words."""
    return json.dumps({"id": name, "task": "score", "query": "q", "document": document} | fields).encode()


def requests(count: int, document: str = "some words", first: int = 0) -> list[bytes]:
    """Numbered requests, `id-<number>`."""
    return [request(f"id-{number}", document) for number in range(first, first + count)]


def id_of(result: ConsumerRecord) -> str:
    """The id that a result names."""
    return str(dict(result.headers)["scorestream-id"], "utf-8")


def source_offset(result: ConsumerRecord) -> int:
    """The offset of the request that a result answers."""
    return int(dict(result.headers)["scorestream-source-offset"])
