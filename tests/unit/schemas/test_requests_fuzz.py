"""Laws of parse_request: whatever the bytes, a request or a WireError, and nothing of the input in its message."""

import json

import jiter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.request import Request
from schemas.wire import RequestLimits, WireError, encode_request, parse_request

from .request_strategies import MARKER, finite, json_trees, names, trees, valid_requests

LIMITS = RequestLimits(max_items=20)


def parsed(value: bytes) -> Request | WireError:
    """Any other exception is the failure that these tests look for."""
    try:
        return parse_request(value, LIMITS)
    except WireError as error:
        refusal = error
    assert 0 < len(refusal.message) <= 1000
    assert MARKER not in refusal.message
    assert refusal.message.encode().decode() == refusal.message
    return refusal


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(value):
    assert isinstance(parsed(value), WireError)


@settings(max_examples=300)
@given(st.dictionaries(names, trees, max_size=8))
@example({"task": []})
@example({"task": "rerank", "documents": [[]]})
def test_random_json_is_a_request_or_refused(tree):
    parsed(json.dumps(tree).encode())


@settings(max_examples=300)
@given(valid_requests)
def test_what_the_contract_allows_is_accepted(request):
    value = encode_request(request)
    assert isinstance(parsed(value), Request)


@settings(max_examples=500)
@given(valid_requests, st.data())
def test_a_request_with_one_field_replaced_is_a_request_or_refused(request, data):
    name = data.draw(st.sampled_from(sorted(request)) | names)
    outcome = parsed(json.dumps(request | {name: data.draw(trees)}).encode())
    if isinstance(outcome, WireError) and name not in ("id", "schema"):
        assert outcome.id == request["id"]


@settings(max_examples=300)
@given(valid_requests, st.data())
def test_a_request_with_damaged_bytes_is_a_request_or_refused(request, data):
    value = bytearray(encode_request(request))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    parsed(bytes(value))


@given(st.dictionaries(st.text(max_size=5), json_trees, max_size=4))
def test_metadata_comes_back_as_equal_json_in_the_same_order(metadata):
    text = encode_request(metadata)
    value = b'{"id":"a","task":"embed","input":"d","metadata":' + text + b"}"
    outcome = parsed(value)
    if isinstance(outcome, Request):
        assert outcome.metadata is not None
        assert encode_request(outcome.metadata) == text
    else:
        assert len(text) > 4096


@given(st.text(max_size=300) | st.text(st.characters(categories=["Cc", "Lu"]), max_size=3))
def test_an_id_is_readable_exactly_when_a_request_may_have_it(text):
    request = {"id": text, "task": "embed", "input": "d"}
    good = parsed(json.dumps(request).encode())
    bad = parsed(json.dumps(request | {"top_n": 1}).encode())
    assert isinstance(bad, WireError)
    assert bad.id == (good.id if isinstance(good, Request) else None)


@given(finite)
def test_a_float_is_read_exactly(number):
    assert jiter.from_json(repr(number).encode()) == number
