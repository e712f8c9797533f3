"""What became of each request, in a few bytes per request, and the judgement on it. Pure."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum

from producer_tools.coordinates import Coordinates
from schemas.errors import ErrorCode

EXAMPLES = 5
"""Coordinates kept per kind of finding."""

_HASH_MASK = 2**64 - 1


class Finding(StrEnum):
    """A promise that was not kept; the value is how it is told to people."""

    UNANSWERED = "neither a result nor a dead letter"
    RESULT_MISSING = "a dead letter alone, though the id can be read"
    RESULT_UNEXPECTED = "a result, though the id cannot be read"
    RESULT_OF_NO_REQUEST = "a result of a request that is not there"
    WRONG_ID = "a result with another request's id"
    WRONG_PARTITION = "a result on another partition number"
    OUT_OF_ORDER = "a first result behind a later request's"
    DEAD_LETTER_MISSING = "an error that should be a dead letter too"
    DEAD_LETTER_UNEXPECTED = "a dead letter, though the answer is none"
    REDIS_MISSING = "a result that Redis should still hold"
    REDIS_DIFFERS = "Redis holds bytes that are on no topic"


UNFINISHED = frozenset({Finding.UNANSWERED, Finding.RESULT_MISSING, Finding.DEAD_LETTER_MISSING})
"""What waiting may still put right."""


class _Seen(IntFlag):
    REQUEST = 1
    READABLE_ID = 2
    RESULT = 4
    DEAD_LETTER = 8
    RESULT_TO_BURY = 16  # a result whose error code goes to the dead-letter topic
    RESULT_NOT_TO_BURY = 32


@dataclass(slots=True)
class _Partition:
    """13 bytes per offset. `highest_first`: the highest offset whose first result has been seen."""

    start: int
    seen: bytearray
    id_hashes: array[int]
    ttl_seconds: array[int]
    highest_first: int = -1


@dataclass(slots=True)
class Findings:
    """How often each promise was broken, and where first."""

    counts: Counter[Finding] = field(default_factory=Counter)
    examples: dict[Finding, list[Coordinates]] = field(default_factory=dict)

    def add(self, finding: Finding, where: Coordinates) -> None:
        """Count one."""
        self.counts[finding] += 1
        known = self.examples.setdefault(finding, [])
        if len(known) < EXAMPLES:
            known.append(where)


class Tally:
    """One request topic's bookkeeping over the offset ranges given: partition -> (start, end).

    Requests are told first, then results and dead letters, each result partition in its order. Coordinates outside the
    ranges are counted and not judged.
    """

    def __init__(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.topic = topic
        self.requests = 0
        self.results = 0
        self.duplicates = 0
        self.dead_letters = 0
        self.dead_letter_duplicates = 0
        self.outside = 0
        self.codes: Counter[str] = Counter()
        self._settled = 0
        self._at_once = Findings()
        self._partitions = {
            partition: _Partition(
                start,
                bytearray(end - start),
                array("Q", bytes(8 * (end - start))),
                array("I", bytes(4 * (end - start))),
            )
            for partition, (start, end) in ranges.items()
        }

    @property
    def unsettled(self) -> int:
        """Requests with neither a result nor a dead letter so far."""
        return self.requests - self._settled

    def request(self, partition: int, offset: int, request_id: str | None, ttl_seconds: int = 0) -> None:
        """A request record; `request_id` is None when the id cannot be read."""
        lane = self._partitions[partition]
        index = offset - lane.start
        self.requests += 1
        lane.seen[index] = _Seen.REQUEST
        lane.ttl_seconds[index] = ttl_seconds
        if request_id is not None:
            lane.seen[index] |= _Seen.READABLE_ID
            lane.id_hashes[index] = _hash(request_id)

    def result(self, source: Coordinates, on_partition: int, request_id: str | None, code: str | None) -> None:
        """A result; `code` is its error's, None for an answered request."""
        lane, index = self._locate(source)
        if lane is None:
            return
        before = lane.seen[index]
        if not before & _Seen.REQUEST:
            self._at_once.add(Finding.RESULT_OF_NO_REQUEST, source)
            return
        lane.seen[index] |= _Seen.RESULT | _burial(code)
        if on_partition != source.partition:
            self._at_once.add(Finding.WRONG_PARTITION, source)
        if before & _Seen.READABLE_ID and (request_id is None or _hash(request_id) != lane.id_hashes[index]):
            self._at_once.add(Finding.WRONG_ID, source)
        if before & _Seen.RESULT:
            self.duplicates += 1
            return
        self.results += 1
        self.codes[code or "ok"] += 1
        self._settled += not before & _Seen.DEAD_LETTER
        if on_partition == source.partition:
            if source.offset < lane.highest_first:
                self._at_once.add(Finding.OUT_OF_ORDER, source)
            lane.highest_first = max(lane.highest_first, source.offset)

    def dead_letter(self, source: Coordinates) -> None:
        """A dead letter."""
        lane, index = self._locate(source)
        if lane is None:
            return
        before = lane.seen[index]
        lane.seen[index] |= _Seen.DEAD_LETTER
        if before & _Seen.DEAD_LETTER:
            self.dead_letter_duplicates += 1
            return
        self.dead_letters += 1
        self._settled += bool(before & _Seen.REQUEST) and not before & _Seen.RESULT

    def ttl_seconds(self, source: Coordinates) -> int:
        """What the request at `source` asked Redis for; 0 when it did not say or is not judged."""
        lane = self._partitions.get(source.partition) if source.topic == self.topic else None
        if lane is None or not 0 <= source.offset - lane.start < len(lane.seen):
            return 0
        return lane.ttl_seconds[source.offset - lane.start]

    def findings(self) -> Findings:
        """The judgement on everything told so far."""
        judged = Findings(Counter(self._at_once.counts), {one: list(at) for one, at in self._at_once.examples.items()})
        verdicts = {seen: tuple(_verdicts(_Seen(seen))) for seen in range(64)}
        for partition, lane in self._partitions.items():
            for index, seen in enumerate(lane.seen):
                for finding in verdicts[seen]:
                    judged.add(finding, Coordinates(self.topic, partition, lane.start + index))
        return judged

    def _locate(self, source: Coordinates) -> tuple[_Partition | None, int]:
        lane = self._partitions.get(source.partition) if source.topic == self.topic else None
        if lane is None or not 0 <= source.offset - lane.start < len(lane.seen):
            self.outside += 1
            return None, 0
        return lane, source.offset - lane.start


def _verdicts(seen: _Seen) -> Iterator[Finding]:
    """What is wrong with one request.

    A second answer may differ from the first: the deadline had passed, or the worker's fault was gone. So a dead letter
    is due when every answer calls for one, and allowed when any does.
    """
    if not seen & _Seen.REQUEST:
        return
    if not seen & (_Seen.RESULT | _Seen.DEAD_LETTER):
        yield Finding.UNANSWERED
    elif not seen & _Seen.RESULT:
        if seen & _Seen.READABLE_ID:
            yield Finding.RESULT_MISSING
    else:
        if not seen & _Seen.READABLE_ID:
            yield Finding.RESULT_UNEXPECTED
        if seen & _Seen.DEAD_LETTER:
            if not seen & _Seen.RESULT_TO_BURY:
                yield Finding.DEAD_LETTER_UNEXPECTED
        elif not seen & _Seen.RESULT_NOT_TO_BURY:
            yield Finding.DEAD_LETTER_MISSING


def _burial(code: str | None) -> _Seen:
    if code is None:
        return _Seen.RESULT_NOT_TO_BURY
    try:
        known = ErrorCode(code)
    except ValueError:
        # A later worker's code: either is right.
        return _Seen.RESULT_TO_BURY | _Seen.RESULT_NOT_TO_BURY
    return _Seen.RESULT_TO_BURY if known.dead_letter else _Seen.RESULT_NOT_TO_BURY


def _hash(request_id: str) -> int:
    return hash(request_id) & _HASH_MASK
