"""What a drill strikes: one broker, one Redis, three topics and the workers, all on this machine."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from tests.chaos.fleet import RUNNING_SECONDS, Slot
from tests.chaos.judgement import Judgement, Place, judge
from tests.chaos.load import SCORES, Load, Mix
from tests.chaos.offsets import CommittedOffsets
from tests.services.embedded import EmbeddedNode
from tests.services.kafka import KafkaNode, create_topics
from tests.services.redis import RedisNode

DURABLE = {"appendonly": "yes", "appendfsync": "always"}
"""What Redis has acknowledged it still holds after kill -9."""
LOOK_SECONDS = 0.5


@asynccontextmanager
async def serving(kafka: KafkaNode | EmbeddedNode, redis: RedisNode) -> AsyncIterator[None]:
    """Both servers, killed at the end: nobody needs their data any more."""
    try:
        await asyncio.gather(kafka.start(), redis.start())
        yield
    finally:
        await asyncio.gather(kafka.kill(), redis.kill())


class Deployment:
    """Topics and workers of one name, with the same `settings`; whatever still runs at the end is killed.

    `stop_seconds`: a worker that was told to stop is gone by then. `running_seconds`: one that was started runs.
    """

    def __init__(
        self,
        kafka: KafkaNode | EmbeddedNode,
        redis: RedisNode,
        name: str,
        *,
        partitions: int,
        folder: Path,
        settings: Mapping[str, object],
        stop_seconds: float,
        running_seconds: float = RUNNING_SECONDS,
    ) -> None:
        self.place = Place(kafka.bootstrap_servers, redis.url, name)
        self.offsets = CommittedOffsets(kafka.bootstrap_servers, name, self.place.topics.requests)
        self.slots: list[Slot] = []
        self._partitions = partitions
        self._folder = folder
        self._settings = self.place.settings | dict(settings)
        self._limits = (stop_seconds, running_seconds)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        topics = self.place.topics
        wanted = dict.fromkeys((topics.requests, topics.results, topics.dead_letters), self._partitions)
        await create_topics(self.place.bootstrap_servers, wanted)
        self._tasks.append(asyncio.create_task(self.offsets.follow(LOOK_SECONDS)))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        for task in self._tasks:
            task.cancel()
        for slot in self.slots:
            slot.abandon()

    def load(self, requests_per_second: float, mix: Mix = SCORES) -> Load:
        """Round the partitions; not begun yet."""
        place = self.place
        return Load(place.bootstrap_servers, place.topics.requests, self._partitions, requests_per_second, mix)

    def open_slot(self, name: str, settings: Mapping[str, object] | None = None) -> Slot:
        """A place for one more worker, filled from now on."""
        slot = Slot(name, self._folder / f"worker-{name}", self._settings | dict(settings or {}), *self._limits)
        self.slots.append(slot)
        self._tasks.append(asyncio.create_task(slot.keep_up()))
        return slot

    async def until_all_committed(self, timeout_seconds: float) -> None:
        """Until the committed offsets are the ends of the request topic. Raises TimeoutError, telling both."""
        ends = await self.place.ends(self.place.topics.requests)
        await self.offsets.until(lambda committed: committed == ends, f"committed is {ends}", timeout_seconds)

    async def judged(self, load: Load, bound_duplicates: int) -> Judgement:
        """What became of the requests, of the committed offsets and of the workers. Nothing may be under way."""
        judgement = await judge(self.place, load, bound_duplicates)
        judgement.mismatches += self.offsets.went_back
        judgement.mismatches += [one for slot in self.slots for one in slot.wrong]
        return judgement


@asynccontextmanager
async def under_load(load: Load) -> AsyncIterator[None]:
    """Requests come while this lasts; afterwards every one is acknowledged, or its fate unknown."""
    loading = asyncio.create_task(load.run())
    try:
        yield
    finally:
        load.stop()
        await loading
