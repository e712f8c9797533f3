"""An engine that is restarted in place once it died, as often as the budget allows; then the process has to go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from consumer.clock import Clock
from consumer.errors import EngineDead
from consumer.interfaces import ScoringEngine
from consumer.records import EngineInput, EngineOutput, Step

log = structlog.get_logger()


class RevivableEngine:
    """A ScoringEngine in front of the one that lives now."""

    def __init__(
        self, engine: ScoringEngine, start: Callable[[], Awaitable[ScoringEngine]], period_seconds: float, clock: Clock
    ) -> None:
        self._engine = engine
        self._start = start
        self._period_seconds = period_seconds
        self._clock = clock
        self._revived_at: float | None = None
        self._watch: Callable[[Step], None] = lambda _: None
        self.restarting = False
        """There is no engine now: the next one is being started."""
        self.deaths = 0
        self.restarts = 0

    def submit(self, inputs: Sequence[EngineInput]) -> asyncio.Future[list[EngineOutput]]:
        """One micro-batch, one future, as every engine's."""
        return self._engine.submit(inputs)

    def watch_steps(self, watch: Callable[[Step], None]) -> None:
        """Of whichever engine lives."""
        self._watch = watch
        self._engine.watch_steps(watch)

    async def ping(self, timeout_seconds: float) -> None:
        """Raises EngineDead; nothing while a new one is being started, which has its own deadline."""
        try:
            await self._engine.ping(timeout_seconds)
        except EngineDead:
            if not self.restarting:
                raise

    async def stop(self) -> None:
        """Stop the one that lives now."""
        await self._engine.stop()

    async def revive(self, death: EngineDead) -> None:
        """A new engine in place of the dead one. Raises the death again when that was tried too short a time ago."""
        self.deaths += 1
        now = self._clock.monotonic()
        if self._revived_at is not None and now - self._revived_at < self._period_seconds:
            raise death
        self._revived_at = now
        log.warning("restarting the engine", reason=str(death))
        self.restarting = True
        try:
            await self._engine.stop()
            self._engine = await self._start()
            self._engine.watch_steps(self._watch)
        finally:
            self.restarting = False
        self.restarts += 1
        log.info("engine restarted", seconds=round(self._clock.monotonic() - now, 1))
