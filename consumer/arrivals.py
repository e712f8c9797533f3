"""Records that wait to be decoded, in the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from consumer.item import Item, ItemState
from consumer.signals import Signal

BATCH_RECORDS, BATCH_BYTES = 64, 256 * 1024
"""Decoded and tokenised at once: enough to batch the tokenizer, little enough to start the engine early."""


class Arrivals:
    """Filled by the intake, and again by whoever gives a record another attempt; emptied by one reader."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Item, int]] = deque()
        self._came = Signal()

    def add(self, items: Iterable[Item]) -> None:
        """Each for its attempt of now; those that are at work already are left out."""
        self._waiting.extend((item, item.attempt) for item in items if item.state is ItemState.RECEIVED)
        self._came.notify()

    async def next_batch(self) -> list[tuple[Item, int]]:
        """Items and their attempts, as soon as there is one; without what was given up meanwhile."""
        while True:
            while not self._waiting:
                await self._came.wait()
            if batch := self._take():
                return batch

    def _take(self) -> list[tuple[Item, int]]:
        batch: list[tuple[Item, int]] = []
        size_bytes = 0
        while self._waiting and len(batch) < BATCH_RECORDS and size_bytes < BATCH_BYTES:
            item, attempt = self._waiting.popleft()
            if item.state is ItemState.RECEIVED and item.attempt == attempt:
                batch.append((item, attempt))
                size_bytes += item.record.size_bytes
        return batch
