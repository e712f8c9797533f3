"""What a fetch holds is read within bounds, and what cannot be read is its own record's fault."""

import gzip
import tracemalloc
from typing import Any

import lz4.frame
import pytest
import zstandard
from aiokafka.errors import CorruptRecordException

from producer_tools.reading.batches import Batches
from tests.services.batches import (
    BASE_MS,
    CODECS,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    message_set,
    packed_batch,
    record,
    zstd_that_lies,
)

LIMIT = 4_000_000
MEBIBYTE = 1 << 20
WHOLE = ("snappy in one piece", "zstd with a wide window")
"""Not unpacked piece by piece."""

every_codec = pytest.mark.parametrize("codec", CODECS)


def read(data: bytes, limit: int = LIMIT, first_offset: int = 0) -> list[Any]:
    """As the client does it."""
    batches, found = Batches(data, limit), []
    batches.begin(first_offset)
    while batches.has_next():
        current = batches.next_batch()
        assert current.validate_crc()
        found.extend(current)
    return found


def brief(records: list[Any]) -> list[tuple[int, bytes | None]]:
    return [(one.offset, one.value) for one in records]


def unread(one: Any) -> str:
    return getattr(one, "unread", None) or ""


@every_codec
def test_records_are_what_was_written(codec):
    written = [(b"key %d" % number, b"%d " % number * 500) for number in range(3000)]
    records = [record(n, value, key, [(b"h", b"1"), (b"n", None)]) for n, (key, value) in enumerate(written)]
    found = read(packed_batch(codec, records, base_offset=70), limit=30_000_000)
    assert [(one.key, one.value) for one in found] == written
    assert [one.offset for one in found] == list(range(70, 3070))
    assert [one.timestamp for one in found] == list(range(BASE_MS, BASE_MS + 3000))
    assert {tuple(one.headers) for one in found} == {(("h", b"1"), ("n", None))}


@pytest.mark.parametrize(
    "codec", [name for name in CODECS if name not in ("snappy in one piece", "zstd with a wide window")]
)
def test_a_record_above_the_limit_is_a_place_with_its_key_and_its_neighbours_are_read(codec):
    values = [b"a", b"x" * 20_000_000, b"b", b"y" * (LIMIT + 1), b"c"]
    found = read(packed_batch(codec, [record(n, value, b"k%d" % n) for n, value in enumerate(values)], 5))
    assert brief(found) == [(5, b"a"), (6, None), (7, b"b"), (8, None), (9, b"c")]
    assert [one.key for one in found] == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    assert found[1].timestamp == BASE_MS + 1
    assert "limits.max_unpacked_bytes is 4000000" in found[1].unread
    assert f"{20_000_000 + 11} bytes" in found[1].unread


@pytest.mark.parametrize("codec", WHOLE)
def test_what_cannot_be_unpacked_piece_by_piece_and_is_above_the_limit_is_places_alone(codec):
    found = read(packed_batch(codec, [record(0, b"a"), record(1, b"x" * LIMIT), record(2, b"b")]))
    assert brief(found) == [(0, None), (1, None), (2, None)]
    assert "4000000" in found[0].unread


@pytest.mark.parametrize("size", [LIMIT - 100, LIMIT + 100])
@every_codec
def test_at_the_limit_a_record_is_read_and_above_it_it_is_not(codec, size):
    [found] = read(packed_batch(codec, [record(0, b"x" * size)]))
    assert (found.value is None) == (size > LIMIT)


def test_a_key_that_is_too_large_itself_is_not_kept():
    [found] = read(packed_batch("gzip", [record(0, b"v", key=b"k" * 5_000_000)]))
    assert (found.key, found.value, found.offset) == (None, None, 0)


@pytest.mark.parametrize("codec", [name for name in CODECS if name not in WHOLE])
def test_a_batch_of_many_good_records_is_read_as_a_whole_and_never_held_as_a_whole(codec):
    records = [record(n, b"%d" % n * 20_000) for n in range(1000)]
    data = packed_batch(codec, records)
    unpacked_bytes = sum(map(len, records))
    batches = Batches(data, LIMIT)
    current = batches.next_batch()
    del records
    tracemalloc.start()
    count = sum(one.value is not None for one in current)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1000
    assert unpacked_bytes > 40 * MEBIBYTE
    assert peak_bytes < 8 * MEBIBYTE


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "zstd without a size", "snappy of Java"])
def test_a_bomb_is_passed_over_in_steps(codec):
    batches = Batches(packed_batch(codec, [record(0, b"\0" * 100_000_000), record(1, b"good")]), LIMIT)
    records = iter(batches.next_batch())
    tracemalloc.start()
    assert unread(next(records))
    steps = 0
    while batches.owes:
        batches.skip()
        steps += 1
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert steps >= 12
    assert peak_bytes < 8 * MEBIBYTE
    assert brief(list(records)) == [(1, b"good")]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy of Java"])
def test_what_stands_before_the_offset_that_was_asked_for_is_passed_over_in_steps(codec):
    """As after a restart behind it."""
    small = [record(n, b"%d" % n) for n in range(50_000)]
    bomb = record(50_000, b"\0" * 100_000_000)
    behind = [record(50_001 + n, b"behind %d" % n) for n in range(3)]
    batches = Batches(packed_batch(codec, [*small, bomb, *behind], base_offset=7), LIMIT)
    batches.begin(7 + 50_002)
    steps = 0
    while batches.owes:
        batches.skip()
        steps += 1
    assert steps >= 12
    assert batches.has_next()
    assert brief(list(batches.next_batch())) == [(7 + 50_002, b"behind 1"), (7 + 50_003, b"behind 2")]
    assert not batches.has_next()


def test_what_stands_before_the_offset_that_was_asked_for_may_be_spoilt():
    data = batch([record(n, b"a") for n in range(4)], GZIP, b"garbage", base_offset=10)
    assert brief(read(data, first_offset=12)) == [(12, None), (13, None)]


def test_an_offset_behind_the_last_record_of_a_batch_has_none_of_it():
    assert read(packed_batch("gzip", [record(0, b"a"), record(1, b"b")]), first_offset=2) == []


def test_a_size_that_is_not_true_is_not_believed():
    plain = record(0, b"\0" * 50_000_000)
    [found] = read(batch([plain], ZSTD, zstd_that_lies(plain)))
    assert found.value is None
    # raw snappy that claims 4 GB
    [found] = read(batch([plain], SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 100))
    assert found.value is None


CUT = {
    "gzip": (GZIP, gzip.compress),
    "snappy": CODECS["snappy of Java"],
    "lz4": (LZ4, lz4.frame.compress),
    "zstd": (ZSTD, zstandard.ZstdCompressor().compress),
}


@pytest.mark.parametrize("codec", CUT)
@pytest.mark.parametrize("damage", ["garbage", "cut", "empty"])
def test_every_record_of_what_does_not_unpack_has_its_place_handed_over(codec, damage):
    number, pack = CUT[codec]
    records = [record(n, bytes([n]) * 3_000_000) for n in range(4)]
    packed = pack(b"".join(records))
    broken = {"garbage": b"\x07garbage" * 20, "cut": packed[: len(packed) * 2 // 3], "empty": b""}[damage]
    found = read(batch(records, number, broken, base_offset=10) + batch([record(0, b"next")], base_offset=14))
    assert [one.offset for one in found] == [10, 11, 12, 13, 14]
    assert unread(found[3])
    assert found[4].value == b"next"
    if damage == "cut":
        assert [one.value for one in found[:1]] == [b"\0" * 3_000_000], "what stands before the cut is read"


def test_a_codec_that_there_is_not_is_told():
    found = read(batch([record(0, b"a"), record(1, b"b")], codec=6))
    assert [unread(one) for one in found] == [
        "the record cannot be decoded: there is no codec 6; fetch it by its topic, partition and offset"
    ] * 2


@pytest.mark.parametrize("codec", [None, "gzip", "zstd"])
@pytest.mark.parametrize(
    ("headers", "tail", "carried", "wrong"),
    [
        ([(b"ok", b"1"), (b"a\xff", b"2")], None, (("ok", b"1"), ("a\\xff", b"2")), "index 1 is not UTF-8"),
        ([(b"\xc3\x28", None)], None, (("\\xc3(", None),), "index 0 is not UTF-8"),
        ([(None, b"1")], None, (("", b"1"),), "index 0 has no name"),
        ([], b"\x03", (), "the headers cannot be read"),
        ([], b"\x02\x7eab", (), "the headers cannot be read"),
        ([], b"", (), "the headers cannot be read"),
    ],
)
def test_what_is_wrong_with_headers_leaves_key_and_value_and_neighbours_readable(codec, headers, tail, carried, wrong):
    records = [record(0, b"a"), record(1, b"bad", b"k", headers, tail), record(2, b"c", None, [(b"h", b"1")])]
    data = packed_batch(codec, records) if codec else batch(records)
    found = read(data)
    assert brief(found) == [(0, b"a"), (1, b"bad"), (2, b"c")]
    assert (found[1].key, tuple(found[1].headers), found[1].unread) == (b"k", carried, None)
    assert wrong in found[1].misnamed
    assert getattr(found[2], "misnamed", None) is None
    assert tuple(found[2].headers) == (("h", b"1"),)


def test_very_long_and_empty_header_names_are_names():
    [found] = read(batch([record(0, b"a", None, [(b"n" * 100_000, b"1"), (b"", b"2")])]))
    assert tuple(found.headers) == (("n" * 100_000, b"1"), ("", b"2"))


@pytest.mark.parametrize("codec", [None, "lz4"])
def test_a_record_whose_value_is_longer_than_itself_is_a_place(codec):
    broken = record(1, None, b"k", tail=b"")[:-1] + b"\x7e"
    records = [record(0, b"a"), broken, record(2, b"c")]
    found = read(packed_batch(codec, records) if codec else batch(records))
    assert brief(found) == [(0, b"a"), (1, None), (2, b"c")]
    assert found[1].unread


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_message_sets_of_old_producers_are_read(magic, codec):
    found = read(message_set(magic, codec, [b"a", b"b", b"c"], 12), first_offset=10)
    assert brief(found) == [(10, b"a"), (11, b"b"), (12, b"c")]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_a_message_set_above_the_limit_is_the_places_of_its_records(magic, codec):
    data = message_set(magic, codec, [b"a", b"\0" * 30_000_000, b"c"], 12)
    tracemalloc.start()
    found = read(data, first_offset=10)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert brief(found) == [(10, None), (11, None), (12, None)]
    assert peak_bytes < 4 * LIMIT


def test_a_message_set_is_places_from_the_offset_that_was_asked_for():
    data = message_set(1, GZIP, [b"a", b"\0" * 30_000_000, b"c"], 12)
    assert brief(read(data, first_offset=11)) == [(11, None), (12, None)]


def test_a_batch_that_is_not_whole_is_none():
    data = batch([record(0, b"a")])
    batches = Batches(data + data[:-1], LIMIT)
    batches.next_batch()
    assert not batches.has_next()
    assert batches.size_in_bytes() == len(data) - 1


def test_a_batch_without_room_for_its_header_is_damaged():
    with pytest.raises(CorruptRecordException):
        Batches(b"\0" * 20, LIMIT).next_batch()
