"""What the group has committed, looked at from outside all the time."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiokafka.errors import KafkaError

from tests.services.reading import committed_offsets

LOOK_SECONDS = 5.0
"""A look that takes longer is given up: the broker is frozen."""


class CommittedOffsets:
    """The latest look at each partition, and every time that one went back."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        self.latest: dict[int, int] = {}
        self.went_back: list[str] = []
        self._where = (bootstrap_servers, group, topic)
        # Of two looks at once, the earlier could be answered last.
        self._looking = asyncio.Lock()

    async def follow(self, every_seconds: float) -> None:
        """Look until cancelled; while no broker answers there is nothing to see."""
        while True:
            with suppress(KafkaError, TimeoutError):
                await self.look()
            await asyncio.sleep(every_seconds)

    async def look(self) -> None:
        """Once. Raises KafkaError or TimeoutError while no broker answers."""
        async with self._looking:
            async with asyncio.timeout(LOOK_SECONDS):
                now = await committed_offsets(*self._where)
            for partition, offset in now.items():
                before = self.latest.get(partition, -1)
                if offset < before:
                    self.went_back.append(f"partition {partition} went back from {before} to {offset}")
            self.latest |= now

    async def until(self, condition: Callable[[dict[int, int]], bool], what: str, timeout_seconds: float) -> None:
        """Look until the offsets fulfil the condition. Raises TimeoutError, telling the offsets."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not condition(self.latest):
                    with suppress(KafkaError, TimeoutError):
                        await self.look()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"not within {timeout_seconds:g} s: {what}; committed: {self.latest}") from None
