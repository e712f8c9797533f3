"""Numbers: an integer is one however it is written, and metadata comes back as equal JSON, whatever its digits."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.errors import ErrorCode
from schemas.wire import encode_request, parse_request, seal_result
from schemas.wire.requests import WireError

from .request_bytes import BASES, LIMITS, accepted, as_bytes, refused

INTEGERS = [
    ("rerank", "schema", 1),
    ("rerank", "top_n", 1000),
    ("rerank", "max_tokens_per_doc", 1000),
    ("rerank", "deadline_unix_ms", 1_764_435_600_000),
    ("rerank", "timeout_ms", 1000),
    ("rerank", "priority", -100),
    ("rerank", "ttl_seconds", 1000),
    ("classify", "top_k", 1000),
    ("embed", "dimensions", 1000),
]


def with_field(task: str, name: str, text: str) -> bytes:
    """A request with a field as this very text."""
    return json.dumps(BASES[task])[:-1].encode() + f',"{name}":{text}}}'.encode()


@pytest.mark.parametrize(("task", "name", "number"), INTEGERS)
@pytest.mark.parametrize("form", ["{}.0", "{}.000", "{}e0", "{}0e-1", "{}.0E+0"])
def test_an_integer_may_be_written_with_a_fraction_of_zero_or_an_exponent(task, name, number, form):
    request = accepted(with_field(task, name, form.format(number)))
    assert request == accepted(with_field(task, name, str(number)))
    assert type(request.model_dump()[name]) is int


@pytest.mark.parametrize(("task", "name", "number"), INTEGERS)
@pytest.mark.parametrize("form", ["{}.5", "{}5e-1", '"{}"', '"{}.0"', "true", "[{}]"])
def test_what_has_a_fraction_or_is_no_number_is_no_integer(task, name, number, form):
    error = refused(with_field(task, name, form.format(number)))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert f"`{name}`" in error.message


def test_an_integer_beyond_64_bits_is_out_of_range_in_any_form():
    for text in ("1e300", "9223372036854775808", "9223372036854775808.0"):
        assert "`top_n` must be at most" in refused(with_field("rerank", "top_n", text)).message


def echoed(text: bytes, damage: bytes = b"", parse_float: Callable[[str], Any] = Decimal) -> Any:
    """The metadata of the answer to a request that has it as this text; with damage, that is an error."""
    value = b'{"id":"a","task":"plugin","processor":"p","metadata":' + text + damage + b"}"
    try:
        metadata = parse_request(value, LIMITS).metadata
    except WireError as error:
        metadata = error.metadata
    sealed = seal_result(
        status="ok",
        source=("t", 0, 0, 0),
        id="a",
        task="plugin",
        model=("m", None, "f"),
        scale=None,
        results=[],
        failed=[],
        truncated=[],
        prompt_tokens=None,
        error=None,
        metadata=metadata,
        dropped=(),
    )
    timings = dict.fromkeys(("queue", "prepare", "engine", "emit", "total"), 0.0)
    return json.loads(sealed.finish(timings, 0), parse_float=parse_float)["metadata"]


DAMAGES = {"accepted": b"", "refused": b',"topn":1', "refused with a fault": b',"x":"\\ud800"'}
numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=400)
@given(numbers.filter(lambda text: "." in text or "e" in text.lower()), st.sampled_from(sorted(DAMAGES)))
@example("12345678901234567.89", "accepted")
@example("1e-400", "accepted")
@example("-1e-400", "refused")
@example("9007199254740993.0", "refused with a fault")
@example("0.1000000000000000055511151231257827", "accepted")
@example("4.9e-324", "accepted")
@example("0.10", "accepted")
@example("1E5", "accepted")
def test_a_number_of_metadata_comes_back_equal_or_the_request_is_refused_by_its_name(text, damage):
    finite = float(text) not in (float("inf"), float("-inf"))
    metadata = f'{{"n":{text},"deep":[{{"n":[{text},1.5]}}],"text":"x"}}'.encode()
    if not finite:
        error = refused(b'{"id":"a","task":"plugin","processor":"p","metadata":' + metadata + b"}")
        assert (error.code, error.message) == (ErrorCode.SCHEMA, "`metadata` contains a number that is not finite")
        return
    answer = echoed(metadata, DAMAGES[damage])
    assert answer == {"n": Decimal(text), "deep": [{"n": [Decimal(text), Decimal("1.5")]}], "text": "x"}


@pytest.mark.parametrize("text", ["1e-99999999999999999999", "-0.1e-99999999999999999999", "0e9999999999999999999"])
def test_an_exponent_that_no_library_reads_comes_back_as_it_was(text):
    assert echoed(f'{{"n":{text}}}'.encode(), parse_float=str) == {"n": text}


def test_minus_zero_keeps_its_sign():
    assert str(echoed(b'{"n":-0.0}')["n"]) == "-0.0"


def test_a_number_as_a_text_that_is_equal_is_read_as_a_plain_float():
    numbers = accepted(as_bytes(metadata={"w": [0.1, 1e300, 5e-324, -2.5]})).metadata["w"]
    assert [type(number) for number in numbers] == [float] * 4


def test_digits_count_toward_the_size_of_metadata():
    digits = b'{"n":0.' + b"1" * 4090 + b"}"
    assert "4098 bytes" in refused(b'{"id":"a","task":"embed","input":"d","metadata":' + digits + b"}").message


def test_an_io_processor_gets_plain_python_numbers():
    value = (
        b'{"id":"a","task":"plugin","processor":"p","metadata":{"w":1e-400},"data":[1.0,12345678901234567.89,1e-400,7]}'
    )
    data = accepted(value).data
    assert [(type(number), number) for number in data] == [
        (float, 1.0),
        (float, 12345678901234567.89),
        (float, 0.0),
        (int, 7),
    ]


def test_metadata_is_written_again_as_it_was_read():
    text = b'{"a":12345678901234567.89,"b":[1e-400]}'
    assert encode_request(accepted(b'{"id":"a","task":"embed","input":"d","metadata":' + text + b"}").metadata) == text
