"""The lanes of one worker: who may ask for how much, what is to be committed. What a lane does stands in lane.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class Ledger:
    """The lanes of one worker. Caller of everything here: the flow."""

    def __init__(self, limits: LimitSettings, breaker: BreakerSettings) -> None:
        self.memory = MemoryBudget(limits.memory_bytes, limits.lane_memory_share)
        self.lanes: dict[TopicPartition, Lane] = {}
        self._limits = limits
        self._breaker = breaker

    def assigned(self, partitions: Iterable[TopicPartition]) -> list[Lane]:
        """A new assignment: a new lane for each partition. Must run before its first record can be received."""
        partitions = list(partitions)
        for partition in partitions:
            if partition in self.lanes:
                self.lanes[partition].close()
            self.lanes[partition] = Lane(partition, self.memory, Breaker(self._breaker))
        return [self.lanes[partition] for partition in partitions]

    def room(self) -> dict[TopicPartition, int]:
        """Open lanes with room, and how many records each may ask for now."""
        share_bytes = self.memory.room_bytes // max(1, len(self.lanes))
        rooms = {
            partition: lane.room_records(self._limits.lane_records, share_bytes)
            for partition, lane in self.lanes.items()
        }
        return {partition: records for partition, records in rooms.items() if records > 0}

    def receive(
        self, partition: TopicPartition, records: Sequence[SourceRecord], next_offset: int, now: float
    ) -> list[Item]:
        """Into the partition's lane; what arrives for a partition that is not ours any more is dropped."""
        lane = self.lanes.get(partition)
        return lane.receive(records, next_offset, now) if lane else []

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
