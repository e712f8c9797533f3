"""The whole path on fakes: topics, a consumer group and a score store in memory, and the scripted engine."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio
from opentelemetry.trace import Tracer

from consumer.adapters.scripted_engine import ScriptedEncoder, ScriptedEngine
from consumer.clock import SystemClock
from consumer.flow import Flow, Ports
from consumer.interfaces import EncodedText, Processor
from consumer.loading import scripted_card
from consumer.records import Message, ModelIdentity, SourceRecord, TopicPartition
from consumer.revival import RevivableEngine
from consumer.settings import Settings, load_settings
from consumer.stages.answer import Answerer, AnswerLimits
from consumer.stages.prepare import Preparer
from consumer.tasks import tasks_for
from consumer.tracing import Tracing
from schemas.wire import RequestLimits
from tests.fakes.in_memory_kafka import (
    InMemoryDeadLetterWriter,
    InMemoryGroup,
    InMemorySource,
    InMemoryTopic,
    InMemoryWriter,
)
from tests.fakes.in_memory_scores import InMemoryScores
from tests.services.process import wait_until

BASE: dict[str, Any] = {
    "engine.kind": "scripted",
    "engine.max_num_seqs": 8,
    "engine.max_num_batched_tokens": 512,
    "engine.steps_in_flight": 2,
    "engine.scripted_seconds_per_step": 0.001,
    "limits.lane_records": 64,
    "commit.interval_ms": 10,
    "commit.timeout_seconds": 0.5,
    "shutdown.revoke_seconds": 2,
    "shutdown.drain_seconds": 2,
}
MAX_FETCH_BYTES = 50_000


class FetchedTopic(InMemoryTopic):
    """A topic of which one fetch brings at most MAX_FETCH_BYTES, or one record, as Kafka's does."""

    def read(self, partition: int, position: int, limit: int) -> tuple[list[SourceRecord], int]:
        size_bytes = 0
        for count, record in enumerate(one for one in self.records[partition] if one.offset >= position):
            size_bytes += record.size_bytes
            if count and size_bytes > MAX_FETCH_BYTES:
                limit = min(limit, count)
                break
        return super().read(partition, position, limit)


@dataclass
class World:
    """Kafka and Redis, shared by the workers of one test."""

    partitions: int
    max_message_bytes: int = 1_048_588
    requests: InMemoryTopic = field(init=False)
    results: InMemoryTopic = field(init=False)
    dead: InMemoryTopic = field(init=False)
    group: InMemoryGroup = field(init=False)
    scores: InMemoryScores = field(default_factory=InMemoryScores)
    processors: Mapping[str, Processor] = field(default_factory=dict)
    tracer: Tracer | None = None
    workers: list["FlowWorker"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.requests = FetchedTopic("score.requests", self.partitions)
        self.results = InMemoryTopic("score.results", self.partitions, self.max_message_bytes)
        self.dead = InMemoryTopic("score.dead", self.partitions)
        self.group = InMemoryGroup(self.requests)
        self._ids = 0

    def publish(self, count: int, partition: int = 0, document: str = "some words", **fields: Any) -> list[str]:
        """Score requests of one partition; their ids."""
        ids = []
        for _ in range(count):
            one = {"id": f"r{self._ids}", "task": "score", "query": "q", "document": document} | fields
            self.requests.append(partition, Message(None, json.dumps(one).encode(), ()))
            ids.append(one["id"])
            self._ids += 1
        return ids

    async def start(self, **settings: Any) -> "FlowWorker":
        """A worker that has joined the group. Settings by path with `__` for the dot."""
        paths = {path.replace("__", "."): value for path, value in settings.items()}
        worker = FlowWorker(self, load_settings(BASE | paths))
        self.workers.append(worker)
        await worker.source.join(worker.flow.assigned, worker.flow.revoked)
        worker.running = asyncio.create_task(worker.flow.run())
        return worker

    def first_offsets(self, partition: int) -> list[int]:
        """Source offsets on the results topic in the order of their first occurrence."""
        return list(dict.fromkeys(source_offset(record) for record in self.results.records[partition]))

    def answers(self, partition: int = 0) -> list[dict[str, Any]]:
        """The results of one partition."""
        return [json.loads(record.value or b"") for record in self.results.records[partition]]

    def committed(self, partition: int = 0) -> int:
        """The group's offset."""
        return self.group.committed.get(TopicPartition("score.requests", partition), 0)

    async def until(self, condition: Callable[[], bool], what: str, timeout_seconds: float = 20.0) -> None:
        """Wait for a condition; a worker that fails meanwhile raises its failure."""

        def check() -> bool:
            for worker in self.workers:
                if worker.running.done() and not worker.running.cancelled():
                    worker.running.result()
            return condition()

        await wait_until(check, what, timeout_seconds, every_seconds=0.002)

    async def until_all_committed(self, timeout_seconds: float = 20.0) -> None:
        """Every partition's committed offset is its end."""
        ends = self.requests.next_offsets
        await self.until(
            lambda: all(self.committed(number) == end for number, end in enumerate(ends)),
            "everything is committed",
            timeout_seconds,
        )

    def assert_complete_and_ordered(self) -> None:
        """Every request that can be named has a result; first occurrences are in request order."""
        for number, records in enumerate(self.requests.records):
            assert self.first_offsets(number) == [record.offset for record in records]


class StallingClock(SystemClock):
    """The machine's clock, and what a frozen process would have missed of it."""

    stall_seconds = 0.0
    ahead_ms = 0
    """Of the machine's time of day."""

    def monotonic(self) -> float:
        return super().monotonic() + self.stall_seconds

    def unix_ms(self) -> int:
        return super().unix_ms() + self.ahead_ms


class CountingEncoder(ScriptedEncoder):
    """How many texts of requests have been tokenised; a task's own prompts are not counted."""

    encoded_texts = 0

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        self.encoded_texts += sum(map(bool, texts))
        return super().encode(texts)


class FlowWorker:
    """One flow with ports of its own into the world."""

    def __init__(self, world: World, settings: Settings) -> None:
        self.source = InMemorySource(world.group)
        self.clock = StallingClock()
        self._settings = settings
        self.engine = ScriptedEngine(settings.engine)
        self.revivable = RevivableEngine(
            self.engine, self._new_engine, settings.engine.restart_period_seconds, self.clock
        )
        self.results = InMemoryWriter(world.results)
        self.dead_letters = InMemoryDeadLetterWriter(world.dead)
        card, self.encoder = scripted_card(settings.engine), CountingEncoder()
        encoder = self.encoder
        tasks = tasks_for(card, encoder, settings.limits, world.processors)
        answer_limits = AnswerLimits(world.max_message_bytes, 1_048_588, 3600, "group", "test")
        self.flow = Flow(
            Ports(
                self.source,
                self.revivable,
                self.results,
                self.dead_letters,
                world.scores,
                Tracing(world.tracer, "group", self.clock),
            ),
            Preparer(tasks, encoder, card.served_names, RequestLimits(settings.limits.max_items)),
            Answerer(tasks, ModelIdentity(card.name, card.revision, card.fingerprint), answer_limits),
            settings,
            self.clock,
        )
        self.running: asyncio.Task[None]

    async def _new_engine(self) -> ScriptedEngine:
        self.engine = ScriptedEngine(self._settings.engine)
        return self.engine

    async def crash(self) -> None:
        """What kill -9 leaves: nothing more is written or committed, and the group finds out later."""
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running
        await self.engine.stop()

    async def drain(self) -> None:
        """What SIGTERM does."""
        await self.flow.drain()
        await self.crash()
        await self.source.leave()


def source_offset(record: Any) -> int:
    """Of a result."""
    return int(dict(record.headers)["scorestream-source-offset"])


@pytest_asyncio.fixture
async def make_world() -> AsyncIterator[Callable[..., World]]:
    """`make_world(partitions=2)`; its workers are stopped after the test."""
    worlds: list[World] = []

    def make(partitions: int = 1, **options: Any) -> World:
        worlds.append(World(partitions, **options))
        return worlds[-1]

    yield make
    for world in worlds:
        for worker in world.workers:
            await worker.crash()
