"""Which partition receives nothing although it should, since when, and why. No I/O and no clock: both are passed in.

A lane that has records is somebody else's matter: they move, or are held, or stuck. One that has none should receive
what there is. The fact that decides is what the broker said in its last answer to a fetch of the partition: where the
log ends, and how far it may be read. An idle partition is asked again and again, so an answer is never old. Holes in
the offsets (compaction, transaction markers, what was aborted) do not count: the position steps over them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from consumer.lane import Lane, LaneState
from consumer.records import Fetched, TopicPartition


class Cause(StrEnum):
    """Why nothing comes. STARVED: there is something that may be read, or the broker does not answer."""

    STARVED = "starved"
    OPEN_TRANSACTION = "open_transaction"


@dataclass(frozen=True, slots=True)
class UnreadPartition:
    """A partition that has received nothing for so many seconds that the loop ran. `why`: in words."""

    partition: TopicPartition
    cause: Cause
    seconds: float
    why: str

    def __str__(self) -> str:
        """All of it, as a sentence."""
        topic, number = self.partition
        return f"{topic}[{number}] has received nothing for {self.seconds:.0f} s: {self.why}"


@dataclass(frozen=True, slots=True)
class _Place:
    """What has to change for a lane to have come on."""

    cause: Cause
    next_offset: int | None
    answered_ms: int | None
    """Where there is nothing to read: when the broker last said so."""


class Unread:
    """The lanes of one worker. `limit_seconds`: unread for longer, a partition makes the worker unready."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._lanes: Collection[Lane] = ()
        self._places: dict[Lane, tuple[_Place, float]] = {}
        self._fetched: dict[Lane, Fetched | None] = {}
        self._awake_seconds = 0.0
        self._told: set[tuple[TopicPartition, Cause]] = set()

    def look(
        self,
        lanes: Collection[Lane],
        last_fetch: Callable[[TopicPartition], Fetched | None] | None,
        awake_seconds: float,
    ) -> None:
        """Note where each lane is. `awake_seconds`: time in which the loop ran.

        `last_fetch`: None while something that has a name keeps all of them from being read.
        """
        self._lanes, self._awake_seconds = list(lanes), awake_seconds
        self._fetched = {lane: last_fetch(lane.partition) for lane in _waiting(lanes)} if last_fetch else {}
        places: dict[Lane, tuple[_Place, float]] = {}
        for lane, fetched in self._fetched.items():
            place, before = _place(lane, fetched), self._places.get(lane)
            places[lane] = before if before and before[0] == place else (place, awake_seconds)
        self._places = places

    def seconds(self) -> Iterator[tuple[TopicPartition, Cause, float]]:
        """Of each partition and cause: for how long it has received nothing although it should, as of the last look."""
        for lane in self._lanes:
            place, since = self._places.get(lane, (None, self._awake_seconds))
            for cause in Cause:
                unread = place is not None and place.cause is cause
                yield lane.partition, cause, self._awake_seconds - since if unread else 0.0

    def too_long(self) -> Iterator[UnreadPartition]:
        """Each that has been unread for longer than the limit."""
        for lane, (place, since) in self._places.items():
            if self._awake_seconds - since > self.limit_seconds:
                why = _why(place, self._fetched[lane])
                yield UnreadPartition(lane.partition, place.cause, self._awake_seconds - since, why)

    def newly_too_long(self) -> list[UnreadPartition]:
        """Each once. To be asked after each look."""
        unread = {(one.partition, one.cause): one for one in self.too_long()}
        new = [one for key, one in unread.items() if key not in self._told]
        self._told = set(unread)
        return new


def _waiting(lanes: Collection[Lane]) -> Iterator[Lane]:
    """Those that should receive what there is."""
    # Others have filled the memory: they move, or are held or stuck by name, and then it is this one's turn.
    full = any(lane.items and lane.waits_for_memory for lane in lanes)
    return (lane for lane in lanes if lane.state is LaneState.OPEN and not lane.items and not full)


def _place(lane: Lane, fetched: Fetched | None) -> _Place:
    if fetched is None or lane.next_offset is None or fetched.readable > lane.next_offset:
        return _Place(Cause.STARVED, lane.next_offset, None)
    if fetched.end > fetched.readable:
        return _Place(Cause.OPEN_TRANSACTION, lane.next_offset, None)
    return _Place(Cause.STARVED, lane.next_offset, fetched.answered_ms)


def _why(place: _Place, fetched: Fetched | None) -> str:
    if fetched is None:
        return "no fetch of it has been answered"
    if place.cause is Cause.OPEN_TRANSACTION:
        return (
            f"an open transaction keeps its records from offset {fetched.readable} to {fetched.end - 1} from being read"
        )
    if place.answered_ms is not None:
        return "its broker answers no fetch"
    beginning = "its beginning" if place.next_offset is None else f"offset {place.next_offset}"
    return f"it may be read from {beginning} to {fetched.readable - 1}, and nothing of that has come"
