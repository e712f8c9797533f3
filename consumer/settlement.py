"""Every record gets its one outcome here, whoever found it; and the breaker looks at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import structlog

from consumer.breaker import Verdict
from consumer.clock import Clock
from consumer.item import Item, ItemState
from consumer.lane import Held, Hold, Lane
from consumer.records import Outcome
from consumer.stages.answer import Answerer
from consumer.stages.prepare import refusal_for
from consumer.tally import Tally
from schemas.errors import ErrorCode

log = structlog.get_logger()


class Settlement:
    """`emit_from`: a lane's head has its outcome. `arrive`: records of a held lane are to be worked on again."""

    def __init__(
        self,
        answerer: Answerer,
        clock: Clock,
        tally: Tally,
        emit_from: Callable[[Lane], None],
        arrive: Callable[[Iterable[Item]], None],
    ) -> None:
        self._answerer = answerer
        self._clock = clock
        self._tally = tally
        self._emit_from = emit_from
        self._arrive = arrive

    def refuse(self, item: Item, code: ErrorCode, message: str) -> None:
        """The flow's own refusal of a prepared record."""
        self.settle(item, self._answerer.refuse(item.record, item.attempt, refusal_for(item, code, message)))

    def settle(self, item: Item, outcome: Outcome) -> None:
        """The record's outcome, unless it has one, or the breaker opens: then all of its lane are tried again later."""
        lane, now = item.lane, self._clock.monotonic()
        if not item.unanswered:
            return
        held = lane.breaker.open
        verdict = lane.breaker.judge(outcome.code, now)
        if verdict is not Verdict.ADMITTED:
            lane.try_again()
            self._hold(item, outcome, verdict)
            return
        if lane.settle(item, outcome, now):
            self._emit_from(lane)
        if held:
            lane.holds.pop(Hold.BREAKER, None)
            log.info("released by the breaker", lane=repr(lane), offset=item.offset)
            self._arrive(lane.items)

    def _hold(self, item: Item, outcome: Outcome, verdict: Verdict) -> None:
        lane, opened_by = item.lane, item.lane.breaker.opened_by
        assert opened_by is not None, "the breaker is open"
        why = f"too many answers are {opened_by}"
        if verdict is Verdict.STILL_OPEN:
            lane.holds[Hold.BREAKER] = Held(f"{why}; offset {item.offset}, tried again, is {outcome.code}")
            log.warning("still held by the breaker", lane=repr(lane), code=outcome.code, offset=item.offset)
            return
        if verdict is Verdict.OPENED:
            self._tally.breaker_opens[opened_by.value] += 1
        lane.holds[Hold.BREAKER] = Held(why)
        log.error("held by the breaker", lane=repr(lane), code=opened_by, offset=item.offset)

    def probe(self, lanes: Iterable[Lane]) -> None:
        """One record of each lane that the breaker holds, when it is time."""
        now = self._clock.monotonic()
        for lane in lanes:
            if lane.breaker.open and lane.breaker.probe_due(now):
                self._arrive(islice((item for item in lane.items if item.state is ItemState.RECEIVED), 1))
