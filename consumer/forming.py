"""Which sequences go to the engine next: fair over partitions, bounded in records and tokens.

Lanes compete by the tokens they were served (start-time fair queueing), so a hot partition does not starve a quiet
one. Inside a lane the order is the order of receipt: the head of a lane is always the first of it to go in, because
everything behind it waits for it anyway. A request with many sequences goes in consecutively, in pieces where it is
larger than a micro-batch or than the room in the engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from consumer.item import Item, ItemState
from consumer.lane import Lane, LaneState
from consumer.records import EngineInput, EngineOutput
from consumer.sections import MicroBatchSettings
from consumer.windows import EngineWindow

AGEING_POINTS_PER_SECOND = 10.0
"""A waiting request gains so much priority: after 20 s the least urgent equals the most urgent, none starves."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive sequences [start, stop) of one attempt at one item."""

    item: Item
    attempt: int
    start: int
    stop: int


@dataclass(slots=True, eq=False)
class MicroBatch:
    """What is handed to the engine at once, and the items whose deadline passed before they could be."""

    pieces: list[Piece] = field(default_factory=list)
    inputs: list[EngineInput] = field(default_factory=list)
    tokens: int = 0
    expired: list[Item] = field(default_factory=list)

    def items_inside(self) -> list[Item]:
        """Items of which this micro-batch still holds sequences of the current attempt."""
        return [
            piece.item
            for piece in self.pieces
            if piece.item.state is ItemState.STARTED and piece.item.attempt == piece.attempt
        ]

    def halves(self) -> Iterator[MicroBatch]:
        """The same pieces in two micro-batches. Caller: the flow, when the engine failed on all of them together."""
        middle = len(self.pieces) // 2
        at = sum(piece.stop - piece.start for piece in self.pieces[:middle])
        for pieces, inputs in ((self.pieces[:middle], self.inputs[:at]), (self.pieces[middle:], self.inputs[at:])):
            yield MicroBatch(pieces, inputs, sum(one.computed_tokens for one in inputs))

    def put_back(self, outputs: list[EngineOutput], now: float) -> list[Item]:
        """Give every item its outputs; returns the items that are now complete."""
        complete = []
        position = 0
        for piece in self.pieces:
            item, count = piece.item, piece.stop - piece.start
            position += count
            if item.state is not ItemState.STARTED or item.attempt != piece.attempt:
                continue
            item.outputs[piece.start : piece.stop] = outputs[position - count : position]
            item.returned += count
            if item.returned == len(item.outputs):
                item.returned_at = now
                complete.append(item)
        return complete


class Former:
    """Forms micro-batches from what the lanes hold ready."""

    def __init__(self, limits: MicroBatchSettings) -> None:
        self._limits = limits
        self._linger_seconds = limits.linger_ms / 1000
        self._served_floor_tokens = 0

    def wait_seconds(self, lanes: Iterable[Lane], window: EngineWindow, now: float) -> float | None:
        """0 when a micro-batch should be formed now, else how long it may wait to fill; None: nothing is ready.

        An idle engine never waits. A busy one is not served faster by a small micro-batch.
        """
        records = tokens = 0
        oldest = now
        for lane in lanes:
            if lane.ready:
                records += len(lane.ready)
                tokens += lane.ready_tokens
                oldest = min(oldest, lane.ready[0].ready_at)
        if not records:
            return None
        full = records >= self._limits.max_records or tokens >= self._limits.max_tokens
        if full or window.sequences == 0:
            return 0.0
        return max(0.0, oldest + self._linger_seconds - now)

    def form(self, lanes: Iterable[Lane], window: EngineWindow, now: float, now_unix_ms: int) -> MicroBatch:
        """The next micro-batch; without pieces when the window has no room. Affects: the lanes' ready queues."""
        lanes = [lane for lane in lanes if lane.ready]
        if suspect := next((lane.ready[0] for lane in lanes if lane.ready[0].alone), None):
            return self._alone(suspect, window, now)
        batch = MicroBatch()
        queue = self._compete(lanes, now)
        while queue and len(batch.pieces) < self._limits.max_records and batch.tokens < self._limits.max_tokens:
            urgency, _, _, lane = heapq.heappop(queue)
            item = lane.ready[0]
            if item.alone:
                continue
            if item.submitted == 0 and item.deadline_unix_ms is not None and item.deadline_unix_ms <= now_unix_ms:
                batch.expired.append(lane.leave_ready())
            elif not self._take(item, batch, window, now):
                window.refused = window.refused or not batch.pieces
                break
            if lane.ready:
                heapq.heappush(queue, (urgency, lane.served_tokens, lane.partition.partition, lane))
        return batch

    def _alone(self, item: Item, window: EngineWindow, now: float) -> MicroBatch:
        """A record that may have killed the engine, whole and by itself, once the engine is empty."""
        batch = MicroBatch()
        if window.sequences == 0 and item.prepared is not None:
            window.exclusive = True
            item.lane.start(item, now)
            item.submitted = len(item.prepared.inputs)
            batch.pieces.append(Piece(item, item.attempt, 0, item.submitted))
            batch.inputs.extend(item.prepared.inputs)
            batch.tokens = item.prepared.computed_tokens
            item.lane.leave_ready()
        return batch

    def _compete(self, lanes: list[Lane], now: float) -> list[tuple[float, int, int, Lane]]:
        """A heap: more urgent lanes first, among equals the one that was served fewer tokens."""
        best = {lane: min(item.priority for item in lane.ready) for lane in lanes if lane.prioritised}
        top = min((best.get(lane, 0) for lane in lanes), default=0)
        queue = []
        for lane in lanes:
            # A lane that had nothing to offer does not save up credit for later.
            lane.served_tokens = max(lane.served_tokens, self._served_floor_tokens)
            waited = now - lane.ready[0].ready_at
            urgency = max(float(top), best.get(lane, 0) - waited * AGEING_POINTS_PER_SECOND)
            if lane.state is LaneState.CLOSING:
                urgency = float("-inf")
            queue.append((urgency, lane.served_tokens, lane.partition.partition, lane))
        heapq.heapify(queue)
        return queue

    def _take(self, item: Item, batch: MicroBatch, window: EngineWindow, now: float) -> bool:
        """Move sequences of the item into the batch while both have room; False when none fitted."""
        assert item.prepared is not None
        inputs = item.prepared.inputs
        lane, start, stop, tokens = item.lane, item.submitted, item.submitted, 0
        while stop < len(inputs):
            size = inputs[stop].computed_tokens
            fits_batch = batch.tokens + tokens == 0 or batch.tokens + tokens + size <= self._limits.max_tokens
            count = len(batch.inputs) + stop - start
            if not fits_batch or not window.admits(count + 1, batch.tokens + tokens + size):
                break
            tokens += size
            stop += 1
        if stop == start:
            return False
        if start == 0:
            lane.start(item, now)
        item.submitted = stop
        batch.pieces.append(Piece(item, item.attempt, start, stop))
        batch.inputs.extend(inputs[start:stop])
        batch.tokens += tokens
        self._served_floor_tokens = lane.served_tokens
        lane.served_tokens += tokens
        if stop == len(inputs):
            lane.leave_ready()
        return True
