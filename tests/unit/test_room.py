"""How much may be asked for, and when: for any sizes of records, any partitions and any memory.

The model beside the ledger is a source that has something of each partition ready, as much as one fetch brings, and
hands over as many records as it is asked for.
"""

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from consumer.item import Item, work_bytes
from consumer.lane import LaneState
from consumer.ledger import Ledger
from consumer.records import Outcome, SourceRecord, TopicPartition
from consumer.sections import BreakerSettings, LimitSettings
from schemas.errors import ErrorCode

ANSWER = Outcome(result=None, code=ErrorCode.EXPIRED)
FETCH_BYTES = 50_000
SIZES = st.one_of(st.integers(0, 50), st.integers(0, 5_000), st.integers(0, 400_000))
"""Bytes of a value; a record is charged eleven times as much."""


def place(number: int) -> TopicPartition:
    return TopicPartition("score.requests", number)


def new_ledger(partitions: int, memory_bytes: int, share: float = 0.5, lane_records: int = 4096) -> Ledger:
    limits = LimitSettings(memory_bytes=memory_bytes, lane_memory_share=share, lane_records=lane_records)
    ledger = Ledger(limits, BreakerSettings())
    ledger.assigned(place(number) for number in range(partitions))
    return ledger


class Log:
    """The partitions' records, and how far each was read."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.waiting: dict[TopicPartition, deque[SourceRecord]] = {partition: deque() for partition in ledger.lanes}
        self.ends = dict.fromkeys(ledger.lanes, 0)

    def append(self, partition: TopicPartition, value_bytes: int) -> None:
        record = SourceRecord(*partition, self.ends[partition], 0, None, b"x" * value_bytes, ())
        self.waiting[partition].append(record)
        self.ends[partition] += 1

    def fetched(self, partition: TopicPartition) -> int:
        """How many records one fetch brings: as many as fit, at least one."""
        size_bytes = 0
        for count, record in enumerate(self.waiting[partition]):
            size_bytes += record.size_bytes
            if count and size_bytes > FETCH_BYTES:
                return count
        return len(self.waiting[partition])

    def read(self, partition: TopicPartition, limit: int) -> list[Item]:
        """Hand over at most so many; what the budget does not allow must not be exceeded by more than that."""
        waiting = self.waiting[partition]
        records = [waiting.popleft() for _ in range(min(limit, self.fetched(partition)))]
        if not records:
            return []
        left_bytes = self.ledger.memory.left_bytes
        assert left_bytes > 0, "nothing is asked for that there is no memory for"
        items = self.ledger.receive(partition, records, records[-1].offset + 1, now=0.0)
        cost_bytes = sum(map(work_bytes, records))
        assert self.ledger.memory.left_bytes == left_bytes - cost_bytes
        return items

    def read_round(self) -> list[Item]:
        """As the source does it: one partition after the other, each asked for what there is room for then."""
        return [item for partition, limit in self.ledger.room().items() for item in self.read(partition, limit)]


class RoomMachine(RuleBasedStateMachine):
    """Partitions that are written to, read, answered, revoked and assigned again."""

    @initialize(
        partitions=st.integers(1, 12),
        memory_bytes=st.sampled_from([1, 3_000, 100_000, 4_000_000, 50_000_000]),
        share=st.sampled_from([0.01, 0.3, 0.5, 1.0]),
        lane_records=st.sampled_from([1, 5, 4096]),
    )
    def start(self, partitions: int, memory_bytes: int, share: float, lane_records: int) -> None:
        self.ledger = new_ledger(partitions, memory_bytes, share, lane_records)
        self.lane_records = lane_records
        self.log = Log(self.ledger)

    @rule(data=st.data(), sizes=st.lists(SIZES, min_size=1, max_size=8))
    def publish(self, data: st.DataObject, sizes: Sequence[int]) -> None:
        partition = data.draw(st.sampled_from(sorted(self.log.ends)))
        for size in sizes:
            self.log.append(partition, size)

    @rule()
    def read_all(self) -> None:
        self.log.read_round()

    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        room = self.ledger.room()
        partition = data.draw(st.sampled_from(sorted(self.log.ends)))
        self.log.read(partition, room.get(partition, 0))

    @precondition(lambda self: any(lane.items for lane in self.ledger.lanes.values()))
    @rule(data=st.data(), count=st.integers(1, 5))
    def answer(self, data: st.DataObject, count: int) -> None:
        holding = [partition for partition, lane in self.ledger.lanes.items() if lane.items]
        self.deliver(data.draw(st.sampled_from(sorted(holding))), count)

    def deliver(self, partition: TopicPartition, count: int) -> None:
        lane = self.ledger.lanes[partition]
        for item in list(lane.items)[:count]:
            lane.settle(item, ANSWER, 0.0)
        if chunk := lane.take_chunk(count, 10**9, 10**9):
            lane.delivered(chunk)

    @rule(data=st.data())
    def revoke_and_assign(self, data: st.DataObject) -> None:
        """What was not delivered is read again."""
        partition = data.draw(st.sampled_from(sorted(self.log.ends)))
        lane = self.ledger.lanes[partition]
        self.log.waiting[partition].extendleft(item.record for item in reversed(lane.items))
        self.ledger.close(self.ledger.begin_closing([partition]))
        assert partition not in self.ledger.room()
        self.ledger.assigned([partition])

    @rule()
    def everything_is_read_in_the_end(self) -> None:
        """Whatever its size, whatever is held: each turn answers one partition's head alone, in turn."""
        for _ in range(sum(map(len, self.log.waiting.values())) + sum(self.held.values()) + 1):
            self.log.read_round()
            holding = [partition for partition, count in self.held.items() if count]
            if not holding:
                break
            self.deliver(holding[0], 1)
        assert not any(self.log.waiting.values())
        assert not any(self.held.values())
        assert self.ledger.memory.charged_bytes == 0

    @property
    def held(self) -> dict[TopicPartition, int]:
        return {partition: len(lane.items) for partition, lane in self.ledger.lanes.items()}

    @invariant()
    def an_empty_lane_with_budget_left_always_has_room(self) -> None:
        room = self.ledger.room()
        for partition, lane in self.ledger.lanes.items():
            if not lane.items and self.ledger.memory.left_bytes > 0:
                assert room[partition] >= 1

    @invariant()
    def without_budget_nobody_has_room(self) -> None:
        if self.ledger.memory.left_bytes <= 0:
            assert not self.ledger.room()

    @invariant()
    def no_lane_holds_more_records_than_it_may(self) -> None:
        assert all(count <= self.lane_records for count in self.held.values())
        assert all(lane.state is LaneState.OPEN for lane in self.ledger.lanes.values())


RoomMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestRoom = RoomMachine.TestCase


def test_a_lane_whose_records_weigh_more_than_its_share_goes_on_one_at_a_time() -> None:
    """64 partitions with the default memory, and requests of 904 kB to one of them, then a small one."""
    ledger = new_ledger(64, LimitSettings().memory_bytes)
    log = Log(ledger)
    for _ in range(60):
        log.append(place(7), 904_000)
    log.append(place(7), 500)
    answered = 0
    for _ in range(61):
        log.read_round()
        lane = ledger.lanes[place(7)]
        while lane.items:
            lane.settle(lane.items[0], ANSWER, 0.0)
            chunk = lane.take_chunk(1, 10**9, 10**9)
            assert chunk
            lane.delivered(chunk)
            answered += 1
    assert answered == 61


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.05, 0.95), full=st.integers(1, 63))
def test_any_number_of_lanes_that_stand_still_leave_something_to_another(share: float, full: int) -> None:
    ledger = new_ledger(64, 100_000_000, share)
    log = Log(ledger)
    for number in range(full):
        for _ in range(500):
            log.append(place(number), 20_000)
    while log.read_round():
        pass
    log.append(place(63), 2_000)
    before = ledger.memory.left_bytes
    assert before > 0
    assert log.read(place(63), ledger.room()[place(63)])
    held_bytes = max(ledger.lanes[place(number)].charged_bytes for number in range(full))
    assert held_bytes <= share * 100_000_000


@pytest.mark.parametrize("hungry_bytes", [10, 90_000])
def test_when_memory_is_short_the_partition_that_waited_longest_is_next(hungry_bytes: int) -> None:
    """Budget for one record at a time, and three partitions that never run dry."""
    ledger = new_ledger(4, 1_000_000)
    log = Log(ledger)
    for _ in range(100):
        for number in (0, 1, 2):
            log.append(place(number), 90_000)
        log.append(place(3), hungry_bytes)
    in_flight: deque[Item] = deque()
    turns: list[int] = []
    for _ in range(80):
        received = log.read_round()
        in_flight.extend(received)
        turns += [item.record.partition for item in received]
        item = in_flight.popleft()
        item.lane.settle(item, ANSWER, 0.0)
        chunk = item.lane.take_chunk(1, 10**9, 10**9)
        assert chunk
        item.lane.delivered(chunk)
    for number in range(4):
        assert turns.count(number) >= 15
