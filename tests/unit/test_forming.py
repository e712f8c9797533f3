"""Which sequences go to the engine next."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.breaker import Breaker
from consumer.forming import Former, MicroBatch, Round
from consumer.item import Item, ItemState
from consumer.lane import Lane
from consumer.records import EngineInput, Pooling, Prepared, SourceRecord, TopicPartition
from consumer.sections import BreakerSettings, MicroBatchSettings
from consumer.windows import EngineWindow, MemoryBudget
from schemas.request import Document, ScoreRequest

LIMITS = MicroBatchSettings(max_records=8, max_tokens=100, linger_ms=10)


def lane_with(partition: int, *requests: Sequence[int], priority: int = 0, timeout_ms: int | None = None) -> Lane:
    """A lane whose ready requests have sequences of these lengths, all ready at 0 s, written at 1000 ms."""
    lane = Lane(TopicPartition("score.requests", partition), MemoryBudget(10**9, 1.0), Breaker(BreakerSettings()))
    records = [SourceRecord("score.requests", partition, n, 1000, None, b"", ()) for n in range(len(requests))]
    for item, lengths in zip(lane.receive(records, len(records), 0.0), requests, strict=True):
        request = ScoreRequest(
            id=str(item.offset),
            task="score",
            query="q",
            document=Document(text="d"),
            priority=priority,
            timeout_ms=timeout_ms,
        )
        inputs = [EngineInput([1] * length, Pooling.CLASSIFY) for length in lengths]
        lane.make_ready(item, Prepared(request, inputs), 0.0)
    return lane


def form(former: Former, lanes: list[Lane], window: EngineWindow, now: float = 0.0, now_unix_ms: int = 0) -> Round:
    formed = former.form(lanes, window, now, now_unix_ms)
    for batch in formed.batches:
        window.take(len(batch.inputs), batch.tokens)
    return formed


def room_for(sequences: int) -> EngineWindow:
    return EngineWindow(step_sequences=sequences, step_tokens=1_000_000)


def taken(formed: Round) -> list[tuple[int, int]]:
    return [(piece.item.record.partition, piece.item.offset) for batch in formed.batches for piece in batch.pieces]


def test_quiet_partition_is_served_beside_a_hot_one():
    hot = lane_with(0, *[[10]] * 50)
    quiet = lane_with(1, [10])
    assert (1, 0) in taken(form(Former(LIMITS), [hot, quiet], room_for(2)))


def test_partitions_share_by_tokens_not_by_requests():
    long, short = lane_with(0, *[[40]] * 20), lane_with(1, *[[10]] * 20)
    formed = form(Former(LIMITS), [long, short], EngineWindow(step_sequences=100, step_tokens=300))
    tokens = {0: 0, 1: 0}
    for batch in formed.batches:
        for piece in batch.pieces:
            tokens[piece.item.record.partition] += piece.tokens
    assert sum(tokens.values()) > 250
    assert abs(tokens[0] - tokens[1]) <= 40


def test_lane_that_was_empty_has_saved_up_no_credit():
    busy, late = lane_with(0, *[[50]] * 40), lane_with(1, *[[50]] * 40)
    former = Former(LIMITS)
    form(former, [busy], room_for(10))
    assert {partition for partition, _ in taken(form(former, [busy, late], room_for(3)))} == {0, 1}


def test_more_urgent_lane_goes_first():
    usual, urgent = lane_with(0, *[[10]] * 20), lane_with(1, *[[10]] * 20, priority=-5)
    assert {partition for partition, _ in taken(form(Former(LIMITS), [usual, urgent], room_for(20)))} == {1}


def test_more_urgent_request_goes_before_a_shorter_one():
    usual, urgent = lane_with(0, [10]), lane_with(1, [90], priority=-5)
    assert taken(form(Former(LIMITS), [usual, urgent], room_for(2))) == [(1, 0), (0, 0)]


def test_least_urgent_request_equals_the_others_after_twenty_seconds():
    usual, patient = lane_with(0, *[[10]] * 20), lane_with(1, *[[10]] * 20, priority=100)
    former = Former(LIMITS)
    assert {partition for partition, _ in taken(form(former, [usual, patient], room_for(8), now=1.0))} == {0}
    assert {partition for partition, _ in taken(form(former, [usual, patient], room_for(8), now=20.0))} == {0, 1}


def test_closing_lane_goes_before_every_priority():
    urgent, closing = lane_with(0, *[[10]] * 20, priority=-100), lane_with(1, [10], [10, 10])
    closing.start(closing.items[1], 0.0)
    closing.begin_closing()
    assert taken(form(Former(LIMITS), [urgent, closing], room_for(100)))[:2] == [(1, 0), (1, 1)]


def test_request_larger_than_a_micro_batch_goes_in_consecutive_pieces():
    formed = form(Former(LIMITS), [lane_with(0, [30] * 10, [35])], room_for(100))
    spans = [[(piece.item.offset, piece.start, piece.stop) for piece in batch.pieces] for batch in formed.batches]
    assert spans == [[(0, 0, 3)], [(0, 3, 6)], [(0, 6, 9)], [(0, 9, 10), (1, 0, 1)]]


def test_of_what_goes_in_now_the_short_goes_with_the_short():
    lanes = [lane_with(0, *[[40], [5]] * 10), lane_with(1, *[[5], [40]] * 10)]
    former = Former(MicroBatchSettings(max_records=10, max_tokens=1000))
    batches = form(former, lanes, room_for(100)).batches
    assert [{len(one.token_ids) for one in batch.inputs} for batch in batches] == [{5}, {5}, {40}, {40}]


def test_a_long_head_goes_in_before_the_short_ones_behind_it():
    """Length decides the order within a round; who is in it, the order of receipt."""
    lane = lane_with(0, [90], *[[1]] * 50)
    assert (0, 0) in taken(form(Former(LIMITS), [lane], room_for(3)))


def test_request_larger_than_the_window_still_goes_in():
    lane = lane_with(0, [10] * 9)
    former, window = Former(LIMITS), EngineWindow(step_sequences=2, step_tokens=15)
    sizes = []
    while lane.ready:
        [batch] = form(former, [lane], window).batches
        sizes.append(len(batch.inputs))
        window.give_back(len(batch.inputs), batch.tokens)
    assert sizes == [1] * 9


def test_full_window_admits_nothing():
    window = EngineWindow(step_sequences=4, step_tokens=1000, sequences=4, tokens=40)
    assert form(Former(LIMITS), [lane_with(0, [10])], window).batches == []
    assert window.refused


def test_expired_request_never_enters_and_the_next_one_does():
    lane = lane_with(0, [10], [10], timeout_ms=500)
    lane.ready[1].deadline_unix_ms = 99_999
    formed = form(Former(LIMITS), [lane], room_for(2), now_unix_ms=1500)
    assert [item.offset for item in formed.expired] == [0]
    assert taken(formed) == [(0, 1)]
    assert formed.expired[0].state is ItemState.RECEIVED


def test_deadline_is_not_looked_at_again_once_a_piece_is_in_the_engine():
    lane = lane_with(0, [60, 60], timeout_ms=500)
    former = Former(LIMITS)
    form(former, [lane], room_for(1), now_unix_ms=1499)
    formed = form(former, [lane], room_for(1), now_unix_ms=5000)
    assert (taken(formed), formed.expired) == ([(0, 0)], [])


@pytest.mark.parametrize(("in_engine", "wait"), [(0, 0.0), (1, 0.01)])
def test_only_a_busy_engine_lets_a_micro_batch_wait_to_fill(in_engine: int, wait: float):
    window = EngineWindow(100, 10_000, sequences=in_engine)
    assert Former(LIMITS).wait_seconds([lane_with(0, [10])], window, now=0.0) == wait


def test_full_micro_batch_does_not_wait():
    window = EngineWindow(100, 10_000, sequences=1)
    assert Former(LIMITS).wait_seconds([lane_with(0, *[[10]] * 8)], window, now=0.0) == 0
    assert Former(LIMITS).wait_seconds([lane_with(0, [60, 60])], window, now=0.0) == 0


def test_nothing_ready_has_nothing_to_wait_for():
    assert Former(LIMITS).wait_seconds([lane_with(0)], room_for(1), now=0.0) is None


requests = st.lists(st.lists(st.integers(1, 150), min_size=1, max_size=12), max_size=12)


@given(
    st.lists(requests, min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(1, 400),
    st.randoms(use_true_random=False),
)
def test_every_sequence_goes_in_once_in_order_within_the_bounds(contents, window_sequences, window_tokens, random):
    """Any lanes, any window, any order of return: all sequences once, consecutive, and the engine never over-filled."""
    lanes = [lane_with(number, *one) for number, one in enumerate(contents)]
    former, window = Former(LIMITS), EngineWindow(window_sequences, window_tokens)
    in_engine: list[MicroBatch] = []
    complete: list[Item] = []
    seen: dict[tuple[int, int], int] = {}
    while any(lane.ready for lane in lanes) or in_engine:
        batches = form(former, lanes, window).batches
        assert window.sequences <= window_sequences
        assert window.tokens <= window_tokens or window.sequences == 1
        for batch in batches:
            assert len(batch.pieces) <= LIMITS.max_records
            assert batch.tokens == sum(len(one.token_ids) for one in batch.inputs)
            assert batch.tokens <= LIMITS.max_tokens or len(batch.inputs) == 1
            for piece in batch.pieces:
                where = (piece.item.record.partition, piece.item.offset)
                assert seen.get(where, 0) == piece.start
                seen[where] = piece.stop
        in_engine += batches
        if in_engine and (not batches or random.random() < 0.5):
            back = in_engine.pop(random.randrange(len(in_engine)))
            window.give_back(len(back.inputs), back.tokens)
            complete += back.put_back([one.token_ids for one in back.inputs], now=1.0)  # type: ignore[misc]
    assert (window.sequences, window.tokens) == (0, 0)
    assert len(complete) == len(set(map(id, complete))) == sum(map(len, contents))
    for item in complete:
        lengths = contents[item.record.partition][item.offset]
        assert [len(output) for output in item.outputs] == lengths
