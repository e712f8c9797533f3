"""One record on its way through the worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.trace import Span

from consumer.records import EngineOutput, Outcome, Prepared, SourceRecord
from consumer.sections import HELD_BYTES_PER_RAW_BYTE

if TYPE_CHECKING:
    from consumer.lane import Lane

RESERVED_RESULT_BYTES = 2048
"""A small result with its headers; the true size replaces the estimate when the record is settled."""


Scored = tuple[SourceRecord, int, Prepared, list[EngineOutput]]
"""What the shape stage needs of one attempt: record, attempt, prepared request, one output per input."""


class LedgerFault(Exception):
    """An event that cannot follow from the ones before. This is a bug, or the topic was made anew under us."""


class ItemState(Enum):
    """Of one record. DROPPED: given up with its lane, or above the cut of a closing lane."""

    RECEIVED = "received"
    STARTED = "started"
    SETTLED = "settled"
    DROPPED = "dropped"


class StageSeconds(NamedTuple):
    """Where a record's time went, until it was handed over; in the order of the path, without gaps."""

    prepare: float
    queue: float
    engine: float
    shape: float
    emit: float


@dataclass(slots=True, eq=False)
class Item:
    """One record on its way. Times are monotonic seconds; they become the result's timings."""

    lane: Lane
    record: SourceRecord
    charged_bytes: int
    received_at: float
    state: ItemState = ItemState.RECEIVED
    prepared: Prepared | None = None
    deadline_unix_ms: int | None = None
    priority: int = 0
    attempt: int = 1
    alone: bool = False
    outputs: list[EngineOutput | None] = field(default_factory=list)
    submitted: int = 0
    returned: int = 0
    ready_at: float = 0.0
    started_at: float | None = None
    returned_at: float = 0.0
    settled_at: float = 0.0
    outcome: Outcome | None = None
    outcome_bytes: int = 0
    """What it weighs on the topics."""
    span: Span | None = None
    """Of a record that is traced."""

    @property
    def offset(self) -> int:
        """In its partition."""
        return self.record.offset

    @property
    def unanswered(self) -> bool:
        """Neither settled nor given up."""
        return self.state in (ItemState.RECEIVED, ItemState.STARTED)

    @property
    def in_engine(self) -> bool:
        """The engine has not yet returned every sequence of it."""
        return self.state is ItemState.STARTED and self.returned < len(self.outputs)

    def stage_seconds(self, now: float) -> StageSeconds:
        """Of a settled item, as of the attempt that was answered. A stage that it never came to took no time."""
        ready_at = self.ready_at or self.settled_at
        started_at = self.settled_at if self.started_at is None else self.started_at
        # What the engine did not give back, it had until the end; a return before the start is an earlier attempt's.
        returned_at = self.returned_at if self.returned_at >= started_at else self.settled_at
        return StageSeconds(
            prepare=ready_at - self.received_at,
            queue=started_at - ready_at,
            engine=returned_at - started_at,
            shape=self.settled_at - returned_at,
            emit=now - self.settled_at,
        )

    @property
    def scored(self) -> Scored:
        """What the shape stage needs. Caller: the flow, once the engine has returned every sequence."""
        if self.prepared is None or self.returned < len(self.outputs):
            raise LedgerFault(f"offset {self.offset} is not complete. This is a bug.")
        return self.record, self.attempt, self.prepared, [output for output in self.outputs if output is not None]


def work_bytes(record: SourceRecord) -> int:
    """What a record weighs in memory until it is settled; an estimate."""
    return record.size_bytes * HELD_BYTES_PER_RAW_BYTE + RESERVED_RESULT_BYTES
