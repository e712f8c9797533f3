"""Commits the ledger's watermarks, and learns from the broker's answer whether this worker still counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from consumer.errors import DependencyUnavailable, PartitionLost, Unanswered
from consumer.fence import StallFence, Uncommitted
from consumer.interfaces import RecordSource
from consumer.lane import Lane
from consumer.ledger import Ledger
from consumer.metrics.meters import Calls
from consumer.suspects import Suspects

log = structlog.get_logger()


class Committer:
    """One request in flight; the source gives each its deadline."""

    def __init__(
        self, source: RecordSource, ledger: Ledger, fence: StallFence, suspects: Suspects, calls: Calls
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._fence = fence
        self._suspects = suspects
        self._calls = calls
        self._one_in_flight = asyncio.Lock()

    async def commit(self) -> Iterable[Lane]:
        """Commit what moved; returns the lanes whose commit was accepted.

        A refusal is not a fault: the next owner redoes the work. After a stall the watermarks go as they are: what
        counts is whether the broker still takes them from us. So they do when the next owner must know a suspect.
        """
        async with self._one_in_flight:
            stalled = self._fence.closed
            # Another one may come while the broker answers, and is then not part of this commit.
            accusations = self._suspects.accusations
            whatever = stalled or accusations > self._suspects.told
            watermarks = self._ledger.watermarks() if whatever else self._ledger.uncommitted()
            if not watermarks:
                return ()
            try:
                with self._calls.call():
                    await self._source.commit(
                        {mark.lane.partition: mark.offset for mark in watermarks},
                        {mark.lane.partition: self._suspects.note(mark.lane.partition) for mark in watermarks},
                    )
            except (PartitionLost, DependencyUnavailable) as refused:
                uncommitted = Uncommitted(str(refused), answered=not isinstance(refused, Unanswered))
                # Once, and when it changes: it is tried again in every interval, as long as an outage lasts.
                if uncommitted != self._fence.uncommitted:
                    event = "commit refused" if uncommitted.answered else "commit not answered"
                    log.warning(event, reason=uncommitted.reason, partitions=len(watermarks))
                self._fence.uncommitted = uncommitted
                return ()
            self._ledger.committed(watermarks)
            self._suspects.told = accusations
            self._fence.uncommitted = None
            if stalled:
                self._fence.open()
            return [mark.lane for mark in watermarks]
