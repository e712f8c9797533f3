"""Limits of a request: deadlines, counts, sizes, depth, free-form JSON; and of the answer to a bad one."""

import json
import time

import pytest

from schemas.errors import ErrorCode
from schemas.wire import RequestLimits, encode_request

from .request_bytes import accepted, as_bytes, nested, refused


@pytest.mark.parametrize("moment", [10**12, 10**13])
def test_a_deadline_is_in_unix_milliseconds(moment):
    assert accepted(as_bytes(deadline_unix_ms=moment)).deadline_unix_ms == moment


@pytest.mark.parametrize("moment", [1_764_435_600, 10**12 - 1, 10**13 + 1, 1_764_435_600_000_000])
def test_a_deadline_in_another_unit_is_asked_about(moment):
    error = refused(as_bytes(deadline_unix_ms=moment))
    assert error.code == ErrorCode.SCHEMA
    assert "`deadline_unix_ms`" in error.message
    assert "milliseconds?" in error.message


def test_two_deadlines_are_one_too_many():
    error = refused(as_bytes(deadline_unix_ms=10**12, timeout_ms=1))
    assert error.code == ErrorCode.SCHEMA
    assert "`deadline_unix_ms` and `timeout_ms`" in error.message


@pytest.mark.parametrize(("task", "name"), [("rerank", "documents"), ("classify", "input"), ("embed", "input")])
def test_the_number_of_items_is_decided_before_they_are_looked_at(task, name):
    limits = RequestLimits(max_items=3)
    assert accepted(as_bytes(task, **{name: ["d"] * 3}), limits)
    error = refused(as_bytes(task, **{name: [5] * 4}), limits)
    assert (error.code, error.id) == (ErrorCode.TOO_MANY_ITEMS, "a")
    assert f"`{name}` has 4 items, 3 are allowed" in error.message


def test_the_maximum_of_ttl_seconds_is_the_worker_s():
    assert accepted(as_bytes(ttl_seconds=10), RequestLimits(max_ttl_seconds=10)).ttl_seconds == 10
    assert "at most 10" in refused(as_bytes(ttl_seconds=11), RequestLimits(max_ttl_seconds=10)).message


def test_metadata_has_at_most_4096_bytes_serialised():
    fits = {"m": "\u00e9" * 2044}
    assert len(encode_request(fits)) == 4096
    assert accepted(as_bytes(metadata=fits)).metadata == fits
    assert "4097 bytes" in refused(as_bytes(metadata={"m": "\u00e9" * 2044 + "x"})).message


def test_metadata_is_at_most_32_levels_deep():
    assert accepted(as_bytes(metadata={"m": nested(31)}))
    assert "`metadata` is nested deeper than 32 levels" in refused(as_bytes(metadata={"m": nested(32)})).message


def test_a_request_is_at_most_64_levels_deep():
    assert accepted(as_bytes("plugin", data=nested(63)))
    for levels in (64, 199, 250):
        error = refused(as_bytes("plugin", data=nested(levels)))
        assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
        assert "`data` is nested deeper than 64 levels" in error.message


@pytest.mark.parametrize("levels", [65, 199, 250, 990, 2_000, 100_000])
@pytest.mark.parametrize("form", ["arrays", "objects", "both"])
@pytest.mark.parametrize("order", ["id first", "id last"])
def test_the_id_is_read_before_and_behind_what_is_nested_too_deep(levels, form, order):
    opening, closing = {"arrays": ("[", "]"), "objects": ('{"a":', "}"), "both": ('[{"a":', "}]")}[form]
    deep = f'"x":{opening * levels}0{closing * levels}'
    identity = '"id":"a","task":"embed"'
    fields = (identity, deep) if order == "id first" else (deep, identity)
    error = refused(f"{{{','.join(fields)}}}".encode())
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, "a", "embed")
    assert error.message == "`x` is nested deeper than 64 levels" if levels > 200 else "`x`" in error.message


@pytest.mark.parametrize(
    ("deep", "word"),
    [
        ("[" * 5_000, "not closed"),
        ("[" * 5_000 + "]" * 4_999, "not closed"),
        ("[" * 5_000 + "]" * 5_001, "invalid JSON"),
        ("[" * 5_000 + "tru" + "]" * 5_000, "invalid JSON"),
        ("[" * 5_000 + "}" + "]" * 4_999, "invalid JSON"),
        ("[" * 5_000 + "1,]" + "]" * 4_999, "invalid JSON"),
        ("[" * 5_000 + '"]' + "]" * 4_999, "not closed"),
    ],
)
def test_what_is_no_json_is_malformed_however_deep(deep, word):
    error = refused(f'{{"id":"a","x":{deep}}}'.encode())
    assert (error.code, error.id) == (ErrorCode.MALFORMED, None)
    assert word in error.message


def test_brackets_in_texts_are_not_levels():
    texts = json.dumps({"a": "[" * 5_000, "[\\": '"[{\\"', "}": ["\\\\", "]"]})
    error = refused(f'{{"x":{"[" * 3_000}{texts}{"]" * 3_000},"y":{texts},"id":"a"}}'.encode())
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`x` is nested deeper than 64 levels" in error.message


def test_a_key_given_twice_below_two_thousand_levels_is_found_and_leaves_the_id_readable():
    error = refused(f'{{"id":"a","x":{"[" * 2_000}{{"k":1,"k":2}}{"]" * 2_000}}}'.encode())
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`k` is given twice" in error.message


@pytest.mark.parametrize(
    "deep",
    [
        "[" * 300_000 + "]" * 300_000,
        "[" * 5_000 + "[]," * 200_000 + "0" + "]" * 5_000,
        "[" * 5_000 + '"' + '\\"' * 200_000,
        "[" * 5_000 + '"' * 300_000,
        "[" * 500_000,
    ],
    ids=["deep", "deep and wide", "a text that is not closed", "quotes", "open"],
)
def test_depth_costs_no_more_time_than_length(deep):
    started = time.process_time()
    refused(f'{{"id":"a","x":{deep}}}'.encode())
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize("name", ["metadata", "data"])
@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'{"a":NaN}', "not finite"),
        (b'{"a":[-Infinity]}', "not finite"),
        (b'{"a":1e999}', "not finite"),
        (b'{"a":18446744073709551616}', "64 bits"),
        (b'{"a":[-9223372036854775809]}', "64 bits"),
        (b'{"a":' + b"1" * 5000 + b"}", "64 bits"),
        (b'{"a":"\\ud83d"}', "lone surrogate"),
        (b'{"\\udc00":1}', "lone surrogate"),
    ],
)
def test_free_form_json_holds_no_number_or_text_that_cannot_be_written_again(name, content, word):
    error = refused(b'{"id":"a","task":"plugin","processor":"p","' + name.encode() + b'":' + content + b"}")
    assert (error.code, error.id, error.metadata) == (ErrorCode.SCHEMA, "a", None)
    assert f"`{name}`" in error.message
    assert word in error.message


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'{"id":"a","task":"embed","input":"d","input":"e"}', "input"),
        (b'{"id":"a","task":"embed","input":{"text":"d","text":"e"}}', "text"),
        (b'{"id":"a","task":"embed","input":"d","metadata":{"m":1,"m":1}}', "m"),
        (b'{"id":"a","task":"embed","input":"d","\\u0069nput":"e"}', "input"),
    ],
)
def test_a_duplicate_key_is_named_at_any_level_and_ambiguous_metadata_is_not_echoed(value, name):
    error = refused(value)
    assert (error.code, error.id, error.metadata) == (ErrorCode.SCHEMA, "a", None)
    assert f"`{name}` is given twice" in error.message


def test_a_valid_surrogate_pair_is_one_character():
    assert accepted(b'{"id":"a","task":"embed","input":"\\ud83d\\ude00"}').inputs[0].text == "\U0001f600"


@pytest.mark.parametrize(
    "value",
    [
        as_bytes(documents=[5] * 20_000),
        as_bytes(documents=[{"text": "d"} | {f"k{i}": 1 for i in range(50_000)}]),
        as_bytes("score", document={f"k{i}": 1 for i in range(50_000)}),
        as_bytes("classify", input={f"k{i}": 1 for i in range(50_000)}),
        as_bytes(**{f"k{i}": 1 for i in range(50_000)}),
        as_bytes(**{"k" * 60 + str(i): 1 for i in range(5)}),
        b'{"id":"a",' + b'"k":1,' * 50_000 + b'"task":"embed"}',
    ],
    ids=["documents", "fields of a document", "of the document", "of the input", "fields", "long names", "duplicates"],
)
def test_thousands_of_faults_give_one_short_message_soon(value):
    started = time.process_time()
    error = refused(value, RequestLimits(max_items=100_000))
    assert time.process_time() - started < 1.0
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert len(error.message) < 400


def test_only_the_first_few_faults_are_told():
    error = refused(as_bytes(top_n=0, max_tokens_per_doc=0, priority=1000, query=5, return_documents=5))
    assert error.message.endswith("and 2 more")
