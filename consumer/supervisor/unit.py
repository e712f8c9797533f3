"""Workers that are restarted together: each alone, or all where they share a CUDA MPS daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import structlog

from consumer.clock import Clock
from consumer.supervisor.restarts import End, GiveUp, Restarts
from consumer.supervisor.slot import Slot

Surroundings = Callable[[], AbstractAsyncContextManager[Mapping[str, str]]]
"""What must be there while the workers live; gives what they need in their environment."""

log = structlog.get_logger()


class GivenUp(Exception):
    """No restart mends this. `exit_code`: of the supervisor."""

    def __init__(self, exit_code: int, why: str) -> None:
        super().__init__(why)
        self.exit_code = exit_code


class RestartUnit:
    """`stopping` is set when nothing is to be started any more; `proven` says whether any worker has lasted long.

    `end_seconds`: who was told to drain is killed after so long, when one of its unit has died.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        surroundings: Surroundings,
        stopping: asyncio.Event,
        proven: Callable[[], bool],
        *,
        end_seconds: float,
        clock: Clock,
    ) -> None:
        self._slots = slots
        self._surroundings = surroundings
        self._stopping = stopping
        self._proven = proven
        self._end_seconds = end_seconds
        self._clock = clock
        self._restarts = Restarts()

    async def keep_up(self) -> list[End]:
        """Until stopping; how each worker then ended. Raises GivenUp; the workers of this unit have ended then."""
        while True:
            async with self._surroundings() as variables:
                ends = await self._one_life(variables)
            if self._stopping.is_set():
                return ends
            proven = self._proven()
            verdict = self._restarts.after(ends[0], self._clock.monotonic(), proven=proven)
            if isinstance(verdict, GiveUp):
                self._note_down(verdict.why)
                raise GivenUp(verdict.exit_code, verdict.why)
            log.warning(
                "restarting", workers=[slot.plan.index for slot in self._slots], after_seconds=verdict.after_seconds
            )
            self._note_down(f"{ends[0].reason}; starts again {verdict.after_seconds:g} s later")
            if await self._stops_within(verdict.after_seconds):
                return []

    async def _one_life(self, variables: Mapping[str, str]) -> list[End]:
        """From start to end of all of them; the first end is the first of the list."""
        ends: list[End] = []
        lives = [asyncio.create_task(self._live(slot, variables, ends)) for slot in self._slots]
        try:
            await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
            if not self._stopping.is_set():
                for slot in self._slots:
                    slot.drain()
                await asyncio.wait(lives, timeout=self._end_seconds)
                for slot in self._slots:
                    slot.kill()
            await asyncio.gather(*lives)
        finally:
            for life in lives:
                life.cancel()
        return ends

    async def _live(self, slot: Slot, variables: Mapping[str, str], ends: list[End]) -> None:
        end = await slot.live(variables)
        if end is not None:
            ends.append(end)
            tell = log.error if end.exit_code else log.info
            tell(
                "worker ended",
                worker=slot.plan.index,
                exit_code=end.exit_code,
                reason=end.reason,
                ran_seconds=round(end.ran_seconds, 1),
            )

    def _note_down(self, why: str) -> None:
        for slot in self._slots:
            slot.note_down(why)

    async def _stops_within(self, seconds: float) -> bool:
        waiting = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((waiting,), timeout=seconds)
        waiting.cancel()
        return self._stopping.is_set()
