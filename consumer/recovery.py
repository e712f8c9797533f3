"""What happens to the records on which the engine failed.

It died or hangs: what was inside is suspected and put back, and the engine is restarted in place. It lives, and failed
on one micro-batch: that one goes again in halves.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from consumer.committer import Committer
from consumer.errors import EngineDead, MicroBatchFailed
from consumer.forming import MicroBatch
from consumer.item import Item
from consumer.records import TopicPartition
from consumer.revival import RevivableEngine
from consumer.settlement import Settlement
from consumer.suspects import Suspects
from schemas.errors import ErrorCode

SPOILT = "the engine failed on this request"
DEADLY = "the engine died, or stopped to answer, twice while it had nothing but this request"
TOLD_RECORDS = 20
"""Of those that were inside; what kills the engine again is then alone."""

log = structlog.get_logger()


class Recovery:
    """Knows what is inside the engine."""

    def __init__(
        self, engine: RevivableEngine, suspects: Suspects, committer: Committer, settlement: Settlement
    ) -> None:
        self.inside: set[MicroBatch] = set()
        self.engine_lives = True
        self._engine = engine
        self._suspects = suspects
        self._committer = committer
        self._settlement = settlement

    async def engine_died(self, batch: MicroBatch, death: EngineDead) -> None:
        """Each micro-batch that was inside brings the same news; the first one counts. Raises as `replace_engine`."""
        if batch in self.inside:
            await self.replace_engine(death)

    async def replace_engine(self, death: EngineDead) -> None:
        """Put back what is inside, to be replayed one record at a time, and start another engine.

        Raises the death again when the engine may not be restarted (see RevivableEngine); then the next owners of the
        partitions have been told of a record that killed it alone.
        """
        if not self.engine_lives:
            return
        self.engine_lives = False
        suspected = {item for batch in self.inside for item in batch.items_inside()}
        self.inside.clear()
        told = [_name(item) for item in sorted(suspected, key=_place)[:TOLD_RECORDS]]
        log.error("engine died", reason=str(death), records_inside=len(suspected), inside=told)
        guilty = self._suspects.accuse(suspected)
        if len(suspected) == 1:
            log.error("killed by the request that it had alone", request=told[0])
        if guilty:
            self.reject(guilty)
        for item in sorted(suspected, key=lambda item: item.offset, reverse=True):
            item.lane.replay(item)
        try:
            await self._engine.revive(death)
        except EngineDead:
            await self._committer.commit()
            raise
        self.engine_lives = True

    def reject(self, item: Item) -> None:
        """The answer to a record that has killed the engine often enough."""
        log.error("deadly request refused", request=_name(item), code=ErrorCode.ENGINE_REJECTED)
        self._settlement.refuse(item, ErrorCode.ENGINE_REJECTED, DEADLY)

    def divided(self, batch: MicroBatch, failure: MicroBatchFailed) -> Iterable[MicroBatch]:
        """What to try again: halves, until the record that spoils it is alone. Only that one pays, and is answered."""
        if batch not in self.inside:
            return ()
        if len(batch.pieces) > 1:
            return batch.halves()
        for item in batch.items_inside():
            log.error("the engine failed on one record", lane=repr(item.lane), offset=item.offset, exc_info=failure)
            self._settlement.refuse(item, ErrorCode.INTERNAL, SPOILT)
        return ()


def _place(item: Item) -> tuple[TopicPartition, int]:
    return item.lane.partition, item.offset


def _name(item: Item) -> str:
    """As `scorestream replay` names a dead letter's source."""
    topic, partition = item.lane.partition
    return f"{topic}/{partition}/{item.offset}"
