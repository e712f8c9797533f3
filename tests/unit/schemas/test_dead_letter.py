"""Dead letters: the original untouched, or a stub that always fits; and the way back."""

import hashlib

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from schemas.dead_letter import NotReplayable, Reason, dead_letter, own_headers, replayed, unread_dead_letter
from schemas.errors import ErrorCode

REASON = Reason(
    code=ErrorCode.SCHEMA,
    message="m",
    id="a",
    source_topic="score.requests",
    source_partition=7,
    source_offset=42,
    source_timestamp_ms=1764435590123,
    group="g",
    attempts=2,
    worker_version="0.1.0",
)
ROOM = 1_000_000

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
headers = st.lists(st.tuples(keys, st.none() | st.binary(max_size=8))).map(tuple)
maybe_bytes = st.none() | st.binary(max_size=20)


@given(maybe_bytes, maybe_bytes, headers)
def test_key_value_and_headers_are_untouched_and_the_reason_comes_after_them(key, value, original):
    letter = dead_letter(key, value, original, REASON, max_bytes=ROOM)
    assert letter.key == key
    assert letter.headers[: len(original)] == original
    if key is None and value is None:
        assert (letter.value, letter.headers[-1]) == (b"", ("scorestream-null-value", b"1"))
    else:
        assert letter.value == value


def test_every_reason_is_told():
    assert own_headers(dead_letter(b"k", b"v", (), REASON, max_bytes=ROOM).headers) == {
        "scorestream-error-code": "schema",
        "scorestream-error-message": "m",
        "scorestream-id": "a",
        "scorestream-source-topic": "score.requests",
        "scorestream-source-partition": "7",
        "scorestream-source-offset": "42",
        "scorestream-source-timestamp": "1764435590123",
        "scorestream-group": "g",
        "scorestream-attempts": "2",
        "scorestream-worker-version": "0.1.0",
    }


FORGED = tuple(
    (f"scorestream-{name}", b"forged")
    for name in ("value-sha256", "value-bytes", "value-unread", "null-value", "id", "source-topic", "error-message")
)


@pytest.mark.parametrize("forged", [FORGED, (("scorestream-error-code", b"forged"), *FORGED)])
def test_nothing_that_the_caller_says_counts_as_the_worker_s(forged):
    letter = dead_letter(b"k", b"v", forged, REASON._replace(id=None), max_bytes=ROOM)
    assert letter.headers[: len(forged)] == forged
    assert b"forged" not in {text.encode() for text in own_headers(letter.headers).values()}
    assert "scorestream-id" not in own_headers(letter.headers)
    again = replayed(letter.key, letter.value, letter.headers)
    assert (again.key, again.value, again.headers) == (b"k", b"v", (("scorestream-replay-of", b"score.requests/7/42"),))


def test_what_is_no_dead_letter_says_nothing_of_its_own():
    assert own_headers((*FORGED, ("a", b"b"))) == {}


def test_a_record_that_was_not_read_is_a_stub_without_a_hash_and_no_null():
    letter = unread_dead_letter(b"k", REASON, max_bytes=5000)
    told = own_headers(letter.headers)
    assert (letter.key, letter.value, told["scorestream-value-unread"]) == (b"k", b"", "1")
    assert not {"scorestream-null-value", "scorestream-value-sha256"} & told.keys()
    with pytest.raises(NotReplayable, match="fetch the original by its source topic, partition and offset"):
        replayed(letter.key, letter.value, letter.headers)
    assert unread_dead_letter(b"k" * 5000, REASON, max_bytes=5000).key is None


def test_an_unreadable_id_is_absent():
    letter = dead_letter(b"k", b"v", (), REASON._replace(id=None), max_bytes=ROOM)
    assert "scorestream-id" not in own_headers(letter.headers)


def test_ours_counts_when_the_caller_sent_the_same_name():
    letter = dead_letter(b"k", b"v", (("scorestream-error-code", b"forged"),), REASON, max_bytes=ROOM)
    assert letter.headers[0] == ("scorestream-error-code", b"forged")
    assert own_headers(letter.headers)["scorestream-error-code"] == "schema"


@given(
    st.integers(0, 200_000),
    st.integers(0, 200_000),
    st.integers(0, 200_000),
    st.integers(4096, 250_000),
    st.sampled_from([REASON, REASON._replace(id="\U0001f600" * 256, message="\U0001f600" * 1000, group="g" * 255)]),
)
def test_a_dead_letter_always_fits_whatever_the_size_of_the_original(key, value, header, max_bytes, reason):
    original = (b"k" * key, b"v" * value, (("h", b"h" * header),))
    letter = dead_letter(*original, reason, max_bytes=max_bytes)
    assert letter.size_bytes <= max_bytes
    told = own_headers(letter.headers)
    if letter.headers[0][0] == "h":
        assert (letter.key, letter.value) == original[:2]
        assert "scorestream-value-sha256" not in told
    else:
        assert key + value + header > max_bytes - 8192
        assert letter.value == b""
        assert told["scorestream-value-sha256"] == hashlib.sha256(original[1]).hexdigest()
        assert told["scorestream-value-bytes"] == str(value)
        coordinates = [told[f"scorestream-source-{part}"] for part in ("topic", "partition", "offset")]
        assert coordinates == ["score.requests", "7", "42"]
        assert told["scorestream-error-code"] == "schema"


def test_a_stub_keeps_the_key_when_there_is_room():
    assert dead_letter(b"k", b"v" * 10_000, (), REASON, max_bytes=5000).key == b"k"


def test_a_stub_gives_up_the_key_then_the_message_and_keeps_the_id_as_long_as_it_can():
    reason = REASON._replace(message="m" * 1000)
    key = b"k" * 500
    kept = []
    for max_bytes in (2500, 2000, 1000):
        stub = dead_letter(key, b"v" * 10_000, (), reason, max_bytes=max_bytes)
        told = own_headers(stub.headers)
        kept.append((stub.key == key, len(told["scorestream-error-message"]), told["scorestream-id"]))
    assert kept == [(True, 1000, "a"), (False, 1000, "a"), (False, 0, "a")]


@given(maybe_bytes, maybe_bytes, headers)
def test_a_record_is_never_larger_as_a_kafka_batch_than_it_says(key, value, original):
    letter = dead_letter(key, value, original, REASON, max_bytes=ROOM)
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=2**62,
        producer_epoch=1,
        base_sequence=2**30,
        batch_size=ROOM,
    )
    batch.append(0, 2**41, letter.key, letter.value, list(letter.headers))
    assert len(batch.build()) <= letter.size_bytes


def test_a_topic_too_small_for_any_dead_letter_is_told():
    with pytest.raises(ValueError, match=r"max\.message\.bytes"):
        dead_letter(b"k", b"v" * 10_000, (), REASON, max_bytes=200)


@given(maybe_bytes, st.binary(max_size=20), headers)
def test_replay_gives_the_original_back_with_its_origin(key, value, original):
    letter = dead_letter(key, value, original, REASON, max_bytes=ROOM)
    request = replayed(letter.key, letter.value, list(letter.headers))
    own = tuple(header for header in original if not header[0].startswith("scorestream-"))
    assert (request.key, request.value) == (key, value)
    assert request.headers == (*own, ("scorestream-replay-of", b"score.requests/7/42"))


def test_a_replay_that_fails_again_and_is_replayed_again_names_its_last_place():
    first = dead_letter(b"k", b"v", (), REASON, max_bytes=ROOM)
    again = replayed(first.key, first.value, first.headers)
    second = dead_letter(again.key, again.value, again.headers, REASON._replace(source_offset=99), max_bytes=ROOM)
    assert replayed(second.key, second.value, second.headers).headers == (
        ("scorestream-replay-of", b"score.requests/7/99"),
    )


@pytest.mark.parametrize(("key", "value"), [(None, None), (b"k", None), (b"k", b"v" * 10_000)])
def test_what_holds_no_request_is_not_replayed(key, value):
    letter = dead_letter(key, value, (), REASON, max_bytes=5000)
    with pytest.raises(NotReplayable):
        replayed(letter.key, letter.value, list(letter.headers))


def test_a_record_that_is_no_dead_letter_is_not_replayed():
    with pytest.raises(NotReplayable, match="scorestream-source-topic"):
        replayed(b"k", b"v", (("a", b"b"),))
