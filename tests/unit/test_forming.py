"""Which sequences go to the engine next."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.breaker import Breaker
from consumer.forming import Former, MicroBatch
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


def form(former: Former, lanes: list[Lane], window: EngineWindow, now: float = 0.0, now_unix_ms: int = 0) -> MicroBatch:
    batch = former.form(lanes, window, now, now_unix_ms)
    window.take(len(batch.inputs), batch.tokens)
    return batch


def wide() -> EngineWindow:
    return EngineWindow(step_sequences=10_000, step_tokens=1_000_000)


def taken(batch: MicroBatch) -> list[tuple[int, int]]:
    return [(piece.item.record.partition, piece.item.offset) for piece in batch.pieces]


def test_quiet_partition_is_served_beside_a_hot_one():
    hot = lane_with(0, *[[10]] * 50)
    quiet = lane_with(1, [10])
    assert (1, 0) in taken(form(Former(LIMITS), [hot, quiet], wide()))


def test_partitions_share_by_tokens_not_by_requests():
    long, short = lane_with(0, *[[40]] * 20), lane_with(1, *[[10]] * 20)
    former, window = Former(MicroBatchSettings(max_records=100, max_tokens=100)), wide()
    tokens = {0: 0, 1: 0}
    for _ in range(3):
        for piece in form(former, [long, short], window).pieces:
            tokens[piece.item.record.partition] += len(piece.item.prepared.inputs[0].token_ids)
    assert abs(tokens[0] - tokens[1]) <= 40


def test_lane_that_was_empty_has_saved_up_no_credit():
    busy, late = lane_with(0, *[[50]] * 40), lane_with(1, *[[50]] * 40)
    former, window = Former(LIMITS), wide()
    for _ in range(5):
        form(former, [busy], window)
    assert {partition for partition, _ in taken(form(former, [busy, late], window))} == {0, 1}


def test_more_urgent_lane_goes_first():
    usual, urgent = lane_with(0, *[[10]] * 20), lane_with(1, *[[10]] * 20, priority=-5)
    assert {partition for partition, _ in taken(form(Former(LIMITS), [usual, urgent], wide()))} == {1}


def test_least_urgent_request_equals_the_others_after_twenty_seconds():
    usual, patient = lane_with(0, *[[10]] * 20), lane_with(1, *[[10]] * 20, priority=100)
    former = Former(LIMITS)
    assert {partition for partition, _ in taken(form(former, [usual, patient], wide(), now=1.0))} == {0}
    assert {partition for partition, _ in taken(form(former, [usual, patient], wide(), now=20.0))} == {0, 1}


def test_closing_lane_goes_before_every_priority():
    urgent, closing = lane_with(0, *[[10]] * 20, priority=-100), lane_with(1, [10], [10, 10])
    closing.start(closing.items[1], 0.0)
    closing.begin_closing()
    assert taken(form(Former(LIMITS), [urgent, closing], wide()))[:2] == [(1, 0), (1, 1)]


def test_request_larger_than_a_micro_batch_goes_in_consecutive_pieces():
    lane = lane_with(0, [30] * 10, [10])
    former, window = Former(LIMITS), wide()
    batches = [form(former, [lane], window) for _ in range(4)]
    spans = [(piece.start, piece.stop) for batch in batches for piece in batch.pieces if piece.item.offset == 0]
    assert spans == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert taken(batches[-1]) == [(0, 0), (0, 1)]


def test_request_larger_than_the_window_still_goes_in():
    lane = lane_with(0, [10] * 9)
    former, window = Former(LIMITS), EngineWindow(step_sequences=2, step_tokens=15)
    sizes = []
    while lane.ready:
        batch = form(former, [lane], window)
        sizes.append(len(batch.inputs))
        window.give_back(len(batch.inputs), batch.tokens)
    assert sizes == [1] * 9


def test_full_window_admits_nothing():
    window = EngineWindow(step_sequences=4, step_tokens=1000, sequences=4, tokens=40)
    assert form(Former(LIMITS), [lane_with(0, [10])], window).pieces == []


def test_expired_request_never_enters_and_the_next_one_does():
    lane = lane_with(0, [10], [10], timeout_ms=500)
    lane.ready[1].deadline_unix_ms = 99_999
    batch = form(Former(LIMITS), [lane], wide(), now_unix_ms=1500)
    assert [item.offset for item in batch.expired] == [0]
    assert taken(batch) == [(0, 1)]
    assert batch.expired[0].state is ItemState.RECEIVED


def test_deadline_is_not_looked_at_again_once_a_piece_is_in_the_engine():
    lane = lane_with(0, [60, 60], timeout_ms=500)
    former, window = Former(LIMITS), wide()
    form(former, [lane], window, now_unix_ms=1499)
    assert form(former, [lane], window, now_unix_ms=5000).expired == []


@pytest.mark.parametrize(("in_engine", "wait"), [(0, 0.0), (1, 0.01)])
def test_only_a_busy_engine_lets_a_micro_batch_wait_to_fill(in_engine: int, wait: float):
    window = EngineWindow(100, 10_000, sequences=in_engine)
    assert Former(LIMITS).wait_seconds([lane_with(0, [10])], window, now=0.0) == wait


def test_full_micro_batch_does_not_wait():
    window = EngineWindow(100, 10_000, sequences=1)
    assert Former(LIMITS).wait_seconds([lane_with(0, *[[10]] * 8)], window, now=0.0) == 0
    assert Former(LIMITS).wait_seconds([lane_with(0, [60, 60])], window, now=0.0) == 0


def test_nothing_ready_has_nothing_to_wait_for():
    assert Former(LIMITS).wait_seconds([lane_with(0)], wide(), now=0.0) is None


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
        batch = form(former, lanes, window)
        if batch.pieces:
            assert len(batch.pieces) <= LIMITS.max_records
            assert batch.tokens <= LIMITS.max_tokens or len(batch.inputs) == 1
            assert window.sequences <= window_sequences
            assert window.tokens <= window_tokens or window.sequences == 1
            for piece in batch.pieces:
                where = (piece.item.record.partition, piece.item.offset)
                assert seen.get(where, 0) == piece.start
                seen[where] = piece.stop
            in_engine.append(batch)
        if in_engine and (not batch.pieces or random.random() < 0.5):
            back = in_engine.pop(random.randrange(len(in_engine)))
            window.give_back(len(back.inputs), back.tokens)
            complete += back.put_back([one.token_ids for one in back.inputs], now=1.0)  # type: ignore[misc]
    assert (window.sequences, window.tokens) == (0, 0)
    assert len(complete) == len(set(map(id, complete))) == sum(map(len, contents))
    for item in complete:
        lengths = contents[item.record.partition][item.offset]
        assert [len(output) for output in item.outputs] == lengths
