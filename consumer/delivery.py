"""Out of the worker: one chunk, acknowledged by every sink. Each sink is tried until it takes what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf

import structlog

from consumer.errors import DependencyUnavailable
from consumer.interfaces import DeadLetterWriter, ResultWriter, ScoreStore
from consumer.lane import Held, Hold, Lane, LaneState
from consumer.metrics.telemetry import Telemetry
from consumer.records import Message, ScoreEntry
from consumer.sections import RedisMode
from consumer.stages.hand_over import HandedOver
from consumer.tally import Tally

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 5.0
"""Between attempts at a dependency that does not take our writes, doubling."""
PAUSE_AFTER_LOSS = 4
"""In best_effort, times the time that was lost on a Redis that failed."""

log = structlog.get_logger()


class Delivery:
    """Results topic, dead-letter topic and Redis, as one place to bring a chunk to."""

    def __init__(
        self,
        *,
        results: ResultWriter,
        dead_letters: DeadLetterWriter,
        scores: ScoreStore,
        mode: RedisMode,
        tally: Tally,
        telemetry: Telemetry,
    ) -> None:
        self._results = results
        self._dead_letters = dead_letters
        self._scores = scores
        self._mode = mode
        self._tally = tally
        self._telemetry = telemetry
        self._losing = False
        self._cache_again_at = 0.0

    async def deliver(self, lane: Lane, out: HandedOver) -> None:
        """To both topics at once, then to Redis; who took its part is not asked again when another did not.

        Redis comes last: a write that a frozen Redis has in its buffers may land after the next owner's, and what a
        reader finds there must be on the topic. A dependency that fails holds this lane and no other. Ends early only
        when the lane is closed.
        """
        writes = []
        if out.results:
            writes.append(self._until_taken(lane, Hold.RESULTS_TOPIC, lambda: self._write(lane, out.results)))
        if out.dead_letters:
            writes.append(self._until_taken(lane, Hold.DEAD_LETTER_TOPIC, lambda: self._bury(out.dead_letters)))
        # A task for each only where there are two: they are nearly always one.
        await (writes[0] if len(writes) == 1 else asyncio.gather(*writes))
        if out.scores and self._mode is RedisMode.REQUIRED:
            await self._until_taken(lane, Hold.REDIS, lambda: self._cache(out.scores))
        elif out.scores and lane.state is not LaneState.CLOSED:
            await self._try_to_cache(out.scores)

    async def _write(self, lane: Lane, results: Sequence[Message]) -> None:
        with self._telemetry.results.call():
            await self._results.write(lane.partition.partition, results)

    async def _bury(self, dead_letters: Sequence[Message]) -> None:
        with self._telemetry.dead_letters.call():
            await self._dead_letters.write(dead_letters)

    async def _cache(self, entries: Sequence[ScoreEntry]) -> None:
        with self._telemetry.redis.call():
            self._tally.fence_refusals += await self._scores.write(entries)

    async def _try_to_cache(self, entries: Sequence[ScoreEntry]) -> None:
        """Once: the topic is the record, an outage loses cache entries only.

        While it lasts one chunk at a time finds out, and then none for several times as long as that took: a Redis
        that does not answer would else keep every chunk waiting.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began < self._cache_again_at:
            self._tally.cache_losses += len(entries)
            return
        if self._losing:
            self._cache_again_at = inf
        try:
            await self._cache(entries)
        except DependencyUnavailable as unavailable:
            self._tally.cache_losses += len(entries)
            if not self._losing:
                log.warning("cache entries lost", dependency=unavailable.dependency, reason=unavailable.reason)
            self._losing = True
        else:
            self._losing = False
        finally:
            now = loop.time()
            self._cache_again_at = now + PAUSE_AFTER_LOSS * (now - began) if self._losing else now

    async def _until_taken(self, lane: Lane, sink: Hold, write: Callable[[], Awaitable[object]]) -> None:
        retry_seconds = FIRST_RETRY_SECONDS
        while lane.state is not LaneState.CLOSED:
            try:
                await write()
            except DependencyUnavailable as unavailable:
                if sink not in lane.holds:
                    log.warning("held", lane=repr(lane), dependency=unavailable.dependency, reason=unavailable.reason)
                lane.holds[sink] = Held(str(unavailable), unavailable.hindrance)
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(2 * retry_seconds, LAST_RETRY_SECONDS)
            else:
                if sink in lane.holds:
                    log.info("released", lane=repr(lane), sink=sink.value)
                lane.holds.pop(sink, None)
                return
