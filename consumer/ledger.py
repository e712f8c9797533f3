"""The lanes of one worker: who may ask for how much, what is to be committed. What a lane does stands in lane.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.breaker import Breaker
from consumer.item import Item
from consumer.lane import Lane
from consumer.records import SourceRecord, TopicPartition
from consumer.sections import BreakerSettings, LimitSettings
from consumer.windows import MemoryBudget


@dataclass(frozen=True, slots=True)
class Watermark:
    """A lane's committable offset, and how many records the lane had delivered when it was read."""

    lane: Lane
    offset: int
    delivered_records: int


class Room(Mapping[TopicPartition, int]):
    """How many records each partition may ask for that had room at first, in the order in which they are to be asked.

    Each number is as of the moment of the look, so that what one partition has taken, the next does not find: memory
    is exceeded by what one of them brings, not by what all of them bring together.
    """

    def __init__(self, lanes: Iterable[Lane], limit_records: int) -> None:
        self._limit_records = limit_records
        self._lanes = {lane.partition: lane for lane in lanes if lane.room_records(limit_records) > 0}

    def __getitem__(self, partition: TopicPartition) -> int:
        return self._lanes[partition].room_records(self._limit_records)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._lanes)

    def __len__(self) -> int:
        return len(self._lanes)


class Ledger:
    """The lanes of one worker. Caller of everything here: the flow."""

    def __init__(self, limits: LimitSettings, breaker: BreakerSettings) -> None:
        self.memory = MemoryBudget(limits.memory_bytes, limits.lane_memory_share)
        self.lanes: dict[TopicPartition, Lane] = {}
        self._limits = limits
        self._breaker = breaker
        self._turns: dict[TopicPartition, None] = {}
        """Whose turn it is to ask, first the one that received something longest ago: no partition starves."""

    def assigned(self, partitions: Iterable[TopicPartition]) -> list[Lane]:
        """A new assignment: a new lane for each partition. Must run before its first record can be received."""
        partitions = list(partitions)
        for partition in partitions:
            if partition in self.lanes:
                self.lanes[partition].close()
            self.lanes[partition] = Lane(partition, self.memory, Breaker(self._breaker))
            self._turns[partition] = None
        return [self.lanes[partition] for partition in partitions]

    def room(self) -> Room:
        """Open lanes with room, and how many records each may ask for."""
        return Room((self.lanes[partition] for partition in self._turns), self._limits.lane_records)

    def receive(
        self, partition: TopicPartition, records: Sequence[SourceRecord], next_offset: int, now: float
    ) -> list[Item]:
        """Into the partition's lane; what arrives for a partition that is not ours any more is dropped."""
        lane = self.lanes.get(partition)
        items = lane.receive(records, next_offset, now) if lane else []
        if items:
            del self._turns[partition]
            self._turns[partition] = None
        return items

    def begin_closing(self, partitions: Iterable[TopicPartition]) -> list[Lane]:
        """The lanes to be emptied before these partitions may go."""
        closing = [self.lanes[partition] for partition in partitions if partition in self.lanes]
        for lane in closing:
            lane.begin_closing()
        return closing

    def close(self, lanes: Iterable[Lane]) -> None:
        """End these assignments."""
        for lane in lanes:
            lane.close()
            if self.lanes.get(lane.partition) is lane:
                del self.lanes[lane.partition]
                del self._turns[lane.partition]

    def watermarks(self) -> list[Watermark]:
        """Every lane's committable offset, those without a position left out."""
        return [
            Watermark(lane, lane.watermark, lane.delivered_records)
            for lane in self.lanes.values()
            if lane.watermark is not None
        ]

    def uncommitted(self) -> list[Watermark]:
        """What a commit would move forward now."""
        return [mark for mark in self.watermarks() if mark.lane.committed is None or mark.offset > mark.lane.committed]

    def committed(self, watermarks: Iterable[Watermark]) -> None:
        """The broker accepted these; monotonic per lane."""
        for mark in watermarks:
            if mark.lane.committed is None or mark.offset > mark.lane.committed:
                mark.lane.committed = mark.offset
                mark.lane.committed_records = mark.delivered_records
