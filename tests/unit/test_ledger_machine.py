"""The laws of the ledger, for any order of completion, any holes in the offsets, any revoke and reassignment.

The model beside it is the partition itself: a list of offsets, and where the group's commit stands.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from consumer.item import Item, ItemState
from consumer.lane import Lane, LaneState
from consumer.ledger import Ledger
from consumer.records import Outcome, Prepared, SourceRecord, TopicPartition
from consumer.sections import BreakerSettings, LimitSettings
from schemas.errors import ErrorCode
from schemas.request import Document, ScoreRequest

PARTITION = TopicPartition("score.requests", 3)
LIMITS = LimitSettings(lane_records=40, chunk_records=7, max_uncommitted_records=15, memory_bytes=400_000)
REQUEST = ScoreRequest(id="1", task="score", query="q", document=Document(text="d"))
ANSWER = Outcome(result=None, code=ErrorCode.EXPIRED)


class LedgerMachine(RuleBasedStateMachine):
    """One partition that this worker owns, loses and owns again."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(LIMITS, BreakerSettings())
        self.log: list[int] = []  # offsets that hold a record; what is missing is a marker or was compacted
        self.end = 0
        self.group_committed = 0
        self.position = 0
        self.ever_committed: list[int] = []
        self.in_work: list[Item] = []
        self.abandoned: list[Lane] = []
        self.emitted_by_lane: dict[int, list[int]] = {}
        self.assign()

    @property
    def lane(self) -> Lane:
        return self.ledger.lanes[PARTITION]

    def assign(self) -> None:
        self.ledger.assigned([PARTITION])
        self.position = self.group_committed
        self.in_work = []
        self.emitted_by_lane[id(self.lane)] = []
        self.abandoned.append(self.lane)  # keeps the id from being reused

    @rule(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=20))
    def publish(self, gaps: list[int]) -> None:
        for gap in gaps:
            self.log.append(self.end + gap)
            self.end += gap + 1

    @rule(markers=st.integers(1, 3))
    def end_a_transaction(self, markers: int) -> None:
        self.end += markers

    @rule(most=st.integers(0, 30))
    def receive(self, most: int) -> None:
        room = self.ledger.room().get(PARTITION, 0)
        waiting = [offset for offset in self.log if offset >= self.position][: min(most, room)]
        rest = [offset for offset in self.log if offset >= self.position][len(waiting) :]
        position = rest[0] if rest else self.end
        if not waiting and rest:
            position = self.position
        records = [SourceRecord(*PARTITION, offset, 0, None, b"x" * 20, ()) for offset in waiting]
        items = self.ledger.receive(PARTITION, records, position, now=0.0)
        if self.lane.state is LaneState.OPEN:
            assert [item.offset for item in items] == waiting
            self.position = position
            self.in_work.extend(items)
        else:
            assert items == []

    @precondition(lambda self: self.in_work)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.in_work))
        if item.state is ItemState.RECEIVED:
            item.lane.make_ready(item, Prepared(REQUEST, inputs=[], output_bytes=1000 + item.offset), 0.0)
            item.lane.start(item, now=1.0)

    @precondition(lambda self: self.in_work)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.in_work))
        was = item.state
        first = item.lane.settle(item, ANSWER, now=2.0)
        again = item.lane.settle(item, ANSWER, now=3.0)
        assert not again, "settling twice does nothing"
        assert not (first and was in (ItemState.SETTLED, ItemState.DROPPED))

    @rule()
    def take(self) -> None:
        outstanding = self.lane.outstanding
        chunk = self.lane.take_chunk(LIMITS.chunk_records, LIMITS.chunk_bytes, LIMITS.max_uncommitted_records)
        if outstanding:
            assert chunk is None, "one chunk at a time"
        if chunk:
            assert chunk.items == list(self.lane.items)[: len(chunk.items)], "only from the head"
            assert all(item.state is ItemState.SETTLED for item in chunk.items)

    @precondition(lambda self: self.lane.outstanding)
    @rule()
    def deliver(self) -> None:
        chunk = self.lane.outstanding
        assert chunk is not None
        self.emitted_by_lane[id(self.lane)].extend(item.offset for item in chunk.items)
        self.lane.delivered(chunk)

    @rule(accepted=st.booleans())
    def commit(self, accepted: bool) -> None:
        marks = self.ledger.uncommitted()
        if accepted:
            self.ledger.committed(marks)
            for mark in marks:
                self.group_committed = mark.offset
                self.ever_committed.append(mark.offset)

    @rule()
    def try_again(self) -> None:
        leaving = list(self.lane.outstanding.items) if self.lane.outstanding else []
        settled_before = [item for item in self.lane.items if item.state is ItemState.SETTLED]
        forgotten = self.lane.try_again()
        assert forgotten == [item for item in self.lane.items if item not in leaving]
        assert all(item.state is ItemState.SETTLED for item in leaving), "what is leaving is not recalled"
        assert all(item in settled_before for item in leaving)

    @rule()
    def begin_revoke(self) -> None:
        started = [item for item in self.lane.items if item.started_at is not None]
        outstanding = list(self.lane.outstanding.items) if self.lane.outstanding else []
        self.ledger.begin_closing([PARTITION])
        assert all(item in self.lane.items for item in started), "what was started is finished"
        assert list(self.lane.items)[: len(outstanding)] == outstanding

    @rule(commit=st.booleans())
    def finish_revoke(self, commit: bool) -> None:
        self.ledger.begin_closing([PARTITION])
        self.commit(commit)
        lane = self.lane
        late = list(self.in_work)
        outstanding = lane.outstanding
        self.ledger.close([lane])
        assert self.ledger.memory.charged_bytes == 0, "charges return to zero"
        for item in late:
            assert not lane.settle(item, ANSWER, 4.0), "a closed lane swallows"
        if outstanding:
            lane.delivered(outstanding)
        assert lane.take_chunk(99, 10**9, 99) is None
        assert self.ledger.uncommitted() == []
        self.assign()

    @invariant()
    def commits_never_go_back(self) -> None:
        assert self.ever_committed == sorted(self.ever_committed)

    @invariant()
    def emitted_offsets_are_the_partition_without_gaps(self) -> None:
        for offsets in self.emitted_by_lane.values():
            if offsets:
                span = [offset for offset in self.log if offsets[0] <= offset <= offsets[-1]]
                assert offsets == span

    @invariant()
    def nothing_is_committed_before_it_is_emitted(self) -> None:
        emitted = {offset for offsets in self.emitted_by_lane.values() for offset in offsets}
        assert all(offset in emitted for offset in self.log if offset < self.group_committed)

    @invariant()
    def watermark_is_at_most_the_first_undelivered(self) -> None:
        if self.lane.items and self.lane.watermark is not None:
            assert self.lane.watermark <= self.lane.items[0].offset

    @invariant()
    def charges_are_those_of_the_items_held(self) -> None:
        assert self.lane.charged_bytes == sum(item.charged_bytes for item in self.lane.items)
        assert self.ledger.memory.charged_bytes == self.lane.charged_bytes

    @invariant()
    def uncommitted_is_bounded(self) -> None:
        assert self.lane.uncommitted_records <= LIMITS.max_uncommitted_records

    @invariant()
    def never_more_than_the_lane_may_hold(self) -> None:
        assert len(self.lane.items) <= LIMITS.lane_records


LedgerMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
TestLedger = LedgerMachine.TestCase
