"""What joining, losing and leaving partitions means for their lanes.

Revoke and drain are the same: close the lanes above what was started, finish and deliver the rest, commit, end. A crash
is neither: nothing extra is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import structlog

from consumer.committer import Committer
from consumer.errors import DependencyUnavailable
from consumer.fence import StallFence
from consumer.interfaces import RecordSource
from consumer.lane import Lane
from consumer.ledger import Ledger
from consumer.metrics.telemetry import Telemetry
from consumer.records import TopicPartition
from consumer.signals import Signal
from consumer.suspects import Suspects

log = structlog.get_logger()


class Membership:
    """The lanes' beginning and end. `progress` wakes and is woken; `stop_delivery` ends a lane's write under way."""

    def __init__(
        self,
        *,
        source: RecordSource,
        ledger: Ledger,
        committer: Committer,
        fence: StallFence,
        suspects: Suspects,
        telemetry: Telemetry,
        progress: Signal,
        stop_delivery: Callable[[Lane], None],
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._committer = committer
        self._fence = fence
        self._suspects = suspects
        self._telemetry = telemetry
        self._progress = progress
        self._stop_delivery = stop_delivery

    async def assigned(self, partitions: Collection[TopicPartition]) -> list[Lane]:
        """New lanes, before their first record: no await may come before the first line.

        What they receive meanwhile waits until the previous owners' suspects are known; returns the lanes then.
        """
        lanes = self._ledger.assigned(partitions)
        self._telemetry.assigned()
        self._fence.open()
        self._progress.notify()
        try:
            self._suspects.learn(await self._source.notes(partitions))
        except DependencyUnavailable as unavailable:
            log.warning("suspects of the previous owner not read", reason=unavailable.reason)
        for lane in lanes:
            lane.notes_read = True
        log.info("assigned", partitions=_numbers(lanes))
        return lanes

    async def release(self, partitions: Iterable[TopicPartition], budget_seconds: float) -> None:
        """Finish what was started, deliver, commit, within the budget; then these lanes are over.

        At once when the group has counted this worker out already: the next owners do all of it again.
        """
        lanes = self._ledger.begin_closing(partitions)
        self._telemetry.releases()
        if not self._source.counted_in():
            log.warning("lost", lanes=[repr(lane) for lane in lanes])
            self._end(lanes)
            self._telemetry.released("lost")
            return
        self._progress.notify()
        try:
            async with asyncio.timeout(budget_seconds):
                while any(lane.unfinished for lane in lanes):
                    await self._progress.wait()
        except TimeoutError:
            log.warning("released unfinished", lanes=[repr(lane) for lane in lanes if lane.unfinished])
        unfinished_records = sum(len(lane.items) for lane in lanes if lane.unfinished)
        await self._committer.commit()
        uncommitted_records = sum(lane.uncommitted_records for lane in lanes)
        how = "unfinished" if unfinished_records else "revoked"
        self._end(lanes)
        self._telemetry.released(how)
        # What is scored again by the next owners, and what of it readers then see twice.
        again = {"unfinished_records": unfinished_records, "uncommitted_records": uncommitted_records}
        say = log.warning if any(again.values()) else log.info
        say("given back", how=how, **again, partitions=_numbers(lanes))

    def _end(self, lanes: Iterable[Lane]) -> None:
        self._ledger.close(lanes)
        for lane in lanes:
            self._suspects.forget(lane.partition)
            # What is still being written now would appear after the next owner's first results.
            self._stop_delivery(lane)
        # A drain may be waiting for lanes that a rebalance ends.
        self._progress.notify()


def _numbers(lanes: Iterable[Lane]) -> list[int]:
    """For the log; one worker reads one topic."""
    return sorted(lane.partition.partition for lane in lanes)
