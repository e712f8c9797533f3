"""Which sequences go to the engine next: fair over partitions, bounded in records and tokens.

Lanes compete by the tokens they were served (start-time fair queueing), so a hot partition does not starve a quiet
one. Inside a lane the order is the order of receipt: the head of a lane is always the first of it to go in, because
everything behind it waits for it anyway. A request with many sequences goes in consecutively, in pieces where it is
larger than a micro-batch or than the room in the engine.

What fits into the engine now is a round: it is chosen in that order, and then goes in short with short. The engine
computes in the order of entry, so its steps are of like lengths, and a short request is not answered with a long one.
The ledger restores the order of the results anyway, and no request waits longer for it than a round.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from consumer.item import Item, ItemState
from consumer.lane import Lane, LaneState
from consumer.records import EngineInput, EngineOutput
from consumer.sections import MicroBatchSettings
from consumer.windows import EngineWindow

AGEING_POINTS_PER_SECOND = 10.0
"""A waiting request gains so much priority: after 20 s the least urgent equals the most urgent, none starves."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive sequences [start, stop) of one attempt at one item, and the tokens the engine computes for them."""

    item: Item
    attempt: int
    start: int
    stop: int
    tokens: int

    @property
    def inputs(self) -> list[EngineInput]:
        """The sequences themselves."""
        assert self.item.prepared is not None
        return self.item.prepared.inputs[self.start : self.stop]

    @property
    def mean_tokens(self) -> float:
        """Of one sequence."""
        return self.tokens / (self.stop - self.start)

    def up_to(self, max_tokens: int) -> Iterator[Piece]:
        """The same sequences in pieces of at most so many tokens; a longer sequence is a piece by itself."""
        start, tokens = self.start, 0
        for place, one in enumerate(self.inputs, self.start):
            if place > start and tokens + one.computed_tokens > max_tokens:
                yield replace(self, start=start, stop=place, tokens=tokens)
                start, tokens = place, 0
            tokens += one.computed_tokens
        yield replace(self, start=start, tokens=tokens)


@dataclass(slots=True, eq=False)
class MicroBatch:
    """What is handed to the engine at once."""

    pieces: list[Piece] = field(default_factory=list)
    inputs: list[EngineInput] = field(default_factory=list)
    tokens: int = 0

    def add(self, piece: Piece) -> None:
        """Behind what is in it."""
        self.pieces.append(piece)
        self.inputs += piece.inputs
        self.tokens += piece.tokens

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
        for pieces in (self.pieces[:middle], self.pieces[middle:]):
            half = MicroBatch()
            for piece in pieces:
                half.add(piece)
            yield half

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


@dataclass(slots=True)
class Round:
    """What goes to the engine now, and the items whose deadline passed before they could."""

    batches: list[MicroBatch] = field(default_factory=list)
    expired: list[Item] = field(default_factory=list)


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

    def form(self, lanes: Iterable[Lane], window: EngineWindow, now: float, now_unix_ms: int) -> Round:
        """All that the window has room for. Affects: the lanes' ready queues."""
        lanes = [lane for lane in lanes if lane.ready]
        if suspect := next((lane.ready[0] for lane in lanes if lane.ready[0].alone), None):
            return self._alone(suspect, window, now)
        expired: list[Item] = []
        chosen: list[tuple[float, Piece]] = []
        sequences = tokens = 0
        queue = self._compete(lanes, now)
        while queue:
            urgency, _, _, lane = heapq.heappop(queue)
            item = lane.ready[0]
            if item.alone:
                continue
            if item.submitted == 0 and item.deadline_unix_ms is not None and item.deadline_unix_ms <= now_unix_ms:
                expired.append(lane.leave_ready())
            elif piece := self._take(item, sequences, tokens, window, now):
                sequences += piece.stop - piece.start
                tokens += piece.tokens
                chosen.append((urgency, piece))
            else:
                window.refused = True
                break
            if lane.ready:
                heapq.heappush(queue, (urgency, lane.served_tokens, lane.partition.partition, lane))
        chosen.sort(key=lambda one: (one[0], one[1].mean_tokens))
        return Round(list(self._micro_batches(piece for _, piece in chosen)), expired)

    def _micro_batches(self, pieces: Iterable[Piece]) -> Iterator[MicroBatch]:
        """The pieces in this order, within the bounds of a micro-batch."""
        batch = MicroBatch()
        for whole in pieces:
            for piece in whole.up_to(self._limits.max_tokens):
                full = len(batch.pieces) >= self._limits.max_records
                if batch.pieces and (full or batch.tokens + piece.tokens > self._limits.max_tokens):
                    yield batch
                    batch = MicroBatch()
                batch.add(piece)
        if batch.pieces:
            yield batch

    def _alone(self, item: Item, window: EngineWindow, now: float) -> Round:
        """A record that may have killed the engine, whole and by itself, once the engine is empty."""
        if window.sequences > 0 or item.prepared is None:
            return Round()
        window.exclusive = True
        item.lane.start(item, now)
        item.submitted = len(item.prepared.inputs)
        item.lane.leave_ready()
        batch = MicroBatch()
        batch.add(Piece(item, item.attempt, 0, item.submitted, item.prepared.computed_tokens))
        return Round([batch])

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

    def _take(self, item: Item, sequences: int, tokens: int, window: EngineWindow, now: float) -> Piece | None:
        """What the window has room for of the item, beside so many sequences and tokens that were taken before."""
        assert item.prepared is not None
        inputs = item.prepared.inputs
        lane, start, stop, taken = item.lane, item.submitted, item.submitted, 0
        while stop < len(inputs):
            more = taken + inputs[stop].computed_tokens
            if not window.admits(sequences + stop - start + 1, tokens + more):
                break
            stop, taken = stop + 1, more
        if stop == start:
            return None
        if start == 0:
            lane.start(item, now)
        item.submitted = stop
        self._served_floor_tokens = lane.served_tokens
        lane.served_tokens += taken
        if stop == len(inputs):
            lane.leave_ready()
        return Piece(item, item.attempt, start, stop, taken)
