"""An engine that died or hangs: what was inside is suspected and put back, and the engine is restarted in place."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from consumer.committer import Committer
from consumer.errors import EngineDead
from consumer.forming import MicroBatch
from consumer.item import Item
from consumer.revival import RevivableEngine
from consumer.suspects import Suspects

log = structlog.get_logger()


class Recovery:
    """Knows what is inside the engine. `reject` answers a record that has killed the engine often enough."""

    def __init__(
        self, engine: RevivableEngine, suspects: Suspects, committer: Committer, reject: Callable[[Item], None]
    ) -> None:
        self.inside: set[MicroBatch] = set()
        self.engine_lives = True
        self._engine = engine
        self._suspects = suspects
        self._committer = committer
        self._reject = reject

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
        log.error("engine died", reason=str(death), records_inside=len(suspected))
        if guilty := self._suspects.accuse(suspected):
            self._reject(guilty)
        for item in sorted(suspected, key=lambda item: item.offset, reverse=True):
            item.lane.replay(item)
        try:
            await self._engine.revive(death)
        except EngineDead:
            await self._committer.commit()
            raise
        self.engine_lives = True
