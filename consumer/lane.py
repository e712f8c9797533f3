"""One partition under one assignment: which records are where, what may be emitted, what may be committed.

One Lane per partition and assignment. Records enter in offset order, are scored in any order, and leave only from the
head, so the results of a partition are in request order whatever the engine does. The lane object itself is the
assignment's epoch: an item holds its lane, a closed lane swallows every event, and a new assignment gets a new lane.
So work begun under an earlier assignment (A -> B -> A) cannot touch the later one, and nothing needs comparing.

Contiguity is over received records, never over integers: compaction, transaction markers and aborted batches leave
holes in the offsets, and a hole is nothing to wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import islice

from consumer.breaker import Breaker
from consumer.errors import Hindrance
from consumer.item import RESERVED_RESULT_BYTES, Item, ItemState, LedgerFault, work_bytes
from consumer.records import Outcome, Prepared, SourceRecord, TopicPartition, deadline_unix_ms
from consumer.windows import MemoryBudget


class LaneState(Enum):
    """Of one assignment. CLOSING: finishing what was started, taking nothing new. CLOSED: swallows every event."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Hold(StrEnum):
    """What a lane can wait for that is not this process."""

    RESULTS_TOPIC = "results topic"
    DEAD_LETTER_TOPIC = "dead-letter topic"
    REDIS = "redis"
    BREAKER = "breaker"


@dataclass(frozen=True, slots=True)
class Held:
    """Why. `hindrance`: of all that the worker has to do with Kafka, this included."""

    why: str
    hindrance: Hindrance | None = None


@dataclass(slots=True, eq=False)
class Chunk:
    """A settled run from the head of a lane, on its way out. At most one per lane is outstanding."""

    lane: Lane
    items: list[Item]


class Lane:
    """One partition under one assignment. All mutations are synchronous; the flow is the only caller."""

    def __init__(self, partition: TopicPartition, memory: MemoryBudget, breaker: Breaker) -> None:
        self.partition = partition
        self.state = LaneState.OPEN
        self.items: deque[Item] = deque()
        self.ready: deque[Item] = deque()
        self.ready_tokens = 0
        self.prioritised = 0
        self.next_offset: int | None = None
        self.committed: int | None = None
        self.outstanding: Chunk | None = None
        self.delivered_records = 0
        self.committed_records = 0
        self.charged_bytes = 0
        self.served_tokens = 0
        self.holds: dict[Hold, Held] = {}
        """What holds it now, and why."""
        self.notes_read = False
        self.breaker = breaker
        self._memory = memory
        self._average_charge_bytes = float(RESERVED_RESULT_BYTES)

    def __repr__(self) -> str:
        states = {state: sum(item.state is state for item in self.items) for state in ItemState}
        counts = " ".join(f"{state.value}={count}" for state, count in states.items() if count)
        out = f" outstanding={len(self.outstanding.items)}" if self.outstanding else ""
        held = f" held_by={self.held_by}" if self.held_by else ""
        return (
            f"<Lane {self.partition.topic}[{self.partition.partition}] {self.state.value} watermark={self.watermark} "
            f"next={self.next_offset} committed={self.committed} {counts}{out}{held}>"
        )

    @property
    def held_by(self) -> str | None:
        """What this lane waits for, by name; None if nothing."""
        return ", ".join(sorted(self.holds)) or None

    @property
    def may_start(self) -> bool:
        """Whether new records may be worked on: the breaker lets them, and the previous owner's suspects are known."""
        return self.notes_read and not self.breaker.open

    @property
    def watermark(self) -> int | None:
        """All records below are delivered: the head's offset, or the client's position when nothing is held.

        None until the first receipt. It never decreases, and nothing else is ever committed.
        """
        return self.items[0].offset if self.items else self.next_offset

    @property
    def unfinished(self) -> bool:
        """Whether there is something to wait for: nothing comes of what a closed lane still holds."""
        return bool(self.items) and self.state is not LaneState.CLOSED

    @property
    def uncommitted_records(self) -> int:
        """Delivered, but redelivered to the next owner if this process died now."""
        return self.delivered_records - self.committed_records

    @property
    def waits_for_memory(self) -> bool:
        """Whether nothing is left of the memory of all lanes."""
        return self._memory.left_bytes <= 0

    def room_records(self, limit_records: int) -> int:
        """How many records may be asked for now: as many as fit if they weigh what the last ones did.

        While anything is left of the memory an empty lane may ask for one, whatever the last ones weighed: a lane
        learns what its records weigh only by receiving them.
        """
        if self.state is not LaneState.OPEN or self.waits_for_memory:
            return 0
        fitting_records = int(self._memory.room_bytes(self.charged_bytes) / self._average_charge_bytes)
        return min(limit_records - len(self.items), max(fitting_records, 0 if self.items else 1))

    def receive(self, records: Sequence[SourceRecord], next_offset: int, now: float) -> list[Item]:
        """Take what the client returned, and the position it now has. Affects: the tail, the charge.

        Raises LedgerFault when an offset is below one received before.
        """
        if self.state is not LaneState.OPEN:
            return []
        expected = self.next_offset if self.next_offset is not None else -1
        items = []
        for record in records:
            if record.offset < expected:
                raise LedgerFault(f"{self!r} received offset {record.offset} after {expected - 1}")
            expected = record.offset + 1
            charge = work_bytes(record)
            self._average_charge_bytes += (charge - self._average_charge_bytes) / 16
            self._charge(charge)
            items.append(Item(self, record, charge, now))
        if next_offset < expected:
            raise LedgerFault(f"{self!r} has position {next_offset} after offset {expected - 1}")
        self.items.extend(items)
        self.next_offset = next_offset
        return items

    def make_ready(self, item: Item, prepared: Prepared, now: float) -> None:
        """Caller: the flow, when a record is prepared. Affects: the ready queue, which is in the order of receipt.

        A record that waited for somebody else's code may come after its successors; the lane waits for it first.
        """
        if item.state is not ItemState.RECEIVED:
            return
        item.prepared = prepared
        item.deadline_unix_ms = deadline_unix_ms(prepared.request, item.record)
        item.priority = prepared.request.priority
        item.outputs = [None] * len(prepared.inputs)
        item.ready_at = now
        # Given back when the item is settled, which counts its charge anew.
        item.charged_bytes += prepared.output_bytes
        self._charge(prepared.output_bytes)
        place = len(self.ready)
        while place and self.ready[place - 1].offset > item.offset:
            place -= 1
        self.ready.insert(place, item)
        self.ready_tokens += prepared.computed_tokens
        self.prioritised += item.priority != 0

    def start(self, item: Item, now: float) -> None:
        """Caller: forming, when the first sequence of the ready queue's head goes to the engine."""
        item.state = ItemState.STARTED
        item.started_at = now

    def leave_ready(self) -> Item:
        """Caller: forming, when the ready queue's head is in the engine as a whole, or has expired."""
        item = self.ready.popleft()
        if item.prepared:
            self.ready_tokens -= item.prepared.computed_tokens
        self.prioritised -= item.priority != 0
        return item

    def settle(self, item: Item, outcome: Outcome, now: float) -> bool:
        """The record's answer is known; True when that made the head of the lane ready to leave.

        In any order; settling twice, or settling what was dropped, does nothing.
        """
        if not item.unanswered:
            return False
        item.state = ItemState.SETTLED
        item.outcome, item.outcome_bytes = outcome, outcome.size_bytes
        item.settled_at = now
        item.prepared = None
        item.outputs = []
        charge = item.record.size_bytes + item.outcome_bytes + RESERVED_RESULT_BYTES
        self._charge(charge - item.charged_bytes)
        item.charged_bytes = charge
        return item is self.items[0]

    def try_again(self) -> list[Item]:
        """Forget every outcome that has not begun to leave, and every attempt under way; returns what was forgotten.

        Caller: the flow, when the breaker opens. The items stay in their places; what the engine still returns for an
        earlier attempt is ignored.
        """
        leaving = len(self.outstanding.items) if self.outstanding else 0
        forgotten = [item for item in islice(self.items, leaving, None) if item.state is not ItemState.DROPPED]
        for item in forgotten:
            item.state = ItemState.RECEIVED
            item.attempt += 1
            item.prepared = item.outcome = item.started_at = None
            item.outputs = []
            item.submitted = item.returned = 0
            self._charge(work_bytes(item.record) - item.charged_bytes)
            item.charged_bytes = work_bytes(item.record)
        self._clear_ready()
        return forgotten

    def replay(self, item: Item) -> None:
        """Back to the head of the ready queue, as if it had not been started. Caller: the flow, when the engine died.

        To be called from the last to the first of what was in the engine.
        """
        if item.state is not ItemState.STARTED or item.prepared is None:
            return
        if item not in self.ready:
            self.ready.appendleft(item)
            self.ready_tokens += item.prepared.computed_tokens
            self.prioritised += item.priority != 0
        item.state = ItemState.RECEIVED
        item.attempt += 1
        item.outputs = [None] * len(item.prepared.inputs)
        item.submitted = item.returned = 0

    def take_chunk(self, max_records: int, max_bytes: int, max_uncommitted_records: int) -> Chunk | None:
        """The settled run at the head, if nothing is outstanding. The only way out. Affects: outstanding."""
        if self.outstanding or self.state is LaneState.CLOSED:
            return None
        room = min(max_records, max_uncommitted_records - self.uncommitted_records)
        taken: list[Item] = []
        size_bytes = 0
        for item in islice(self.items, max(0, room)):
            if item.state is not ItemState.SETTLED or item.outcome is None:
                break
            size_bytes += item.outcome_bytes
            if taken and size_bytes > max_bytes:
                break
            taken.append(item)
        if not taken:
            return None
        self.outstanding = Chunk(self, taken)
        return self.outstanding

    def delivered(self, chunk: Chunk) -> None:
        """Everything of the chunk is acknowledged. Affects: the head, the charge, the watermark."""
        if self.state is LaneState.CLOSED:
            return
        if self.outstanding is not chunk:
            raise LedgerFault(f"{self!r} delivered a chunk that is not outstanding")
        self.outstanding = None
        for _ in chunk.items:
            self._charge(-self.items.popleft().charged_bytes)
        self.delivered_records += len(chunk.items)

    def begin_closing(self) -> None:
        """Cut above the last started record: finish what is below, drop what is above. Affects: the tail.

        What is dropped is redelivered to the next owner, so it pins the watermark: the position goes back to it.
        """
        if self.state is not LaneState.OPEN:
            return
        self.state = LaneState.CLOSING
        keep = len(self.outstanding.items) if self.outstanding else 0
        for index, item in enumerate(self.items):
            done_directly_below = index == keep and item.state is ItemState.SETTLED
            if item.started_at is not None or done_directly_below:
                keep = index + 1
        while len(self.items) > keep:
            dropped = self.items.pop()
            self._charge(-dropped.charged_bytes)
            dropped.state = ItemState.DROPPED
            self.next_offset = dropped.offset
        self.ready = deque(item for item in self.ready if item.state is not ItemState.DROPPED)
        self.ready_tokens = sum(item.prepared.computed_tokens for item in self.ready if item.prepared)
        self.prioritised = sum(item.priority != 0 for item in self.ready)

    def close(self) -> None:
        """Nothing of this lane is emitted or committed any more. Affects: everything it was charged."""
        self.state = LaneState.CLOSED
        self._charge(-self.charged_bytes)
        for item in self.items:
            item.state = ItemState.DROPPED
        self._clear_ready()

    def _clear_ready(self) -> None:
        self.ready.clear()
        self.ready_tokens = self.prioritised = 0

    def _charge(self, change_bytes: int) -> None:
        self.charged_bytes += change_bytes
        self._memory.charged_bytes += change_bytes
