"""Laws of parse_request: whatever the bytes, a request or a WireError, and nothing of the input in its message."""

import json
from typing import Any

import jiter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.request import Request
from schemas.wire import RequestLimits, WireError, encode_request, parse_request

MARKER = "zqxj7"
LIMITS = RequestLimits(max_items=20)

texts = st.text(max_size=20) | st.just(MARKER)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
names = st.sampled_from(
    [
        *("schema", "id", "task", "model", "deadline_unix_ms", "timeout_ms", "priority", "truncate", "ttl_seconds"),
        *("metadata", "query", "documents", "document", "input", "top_n", "return_documents", "instruction"),
        *("max_tokens_per_doc", "raw_scores", "top_k", "dimensions", "normalize", "role", "encoding_format"),
        *("processor", "data", "text", "topn"),
    ]
)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
document = texts | st.fixed_dictionaries({"text": texts}, optional={"id": st.none() | st.text(min_size=1, max_size=5)})
documents = st.lists(document, min_size=1, max_size=5)

# Their own JSON, as orjson and the contract know it.
finite = st.floats(allow_nan=False, allow_infinity=False)
json_leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | st.text(max_size=10)
json_trees = st.recursive(
    json_leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)

positive = st.none() | st.integers(1, 2**63 - 1)
shared: dict[str, Any] = {
    "schema": st.sampled_from([None, 1]),
    "model": st.none() | texts,
    "priority": st.none() | st.integers(-100, 100),
    "truncate": st.none() | st.booleans(),
    "ttl_seconds": st.none() | st.integers(1, 86_400),
    "metadata": st.none() | st.dictionaries(st.text(max_size=5), json_trees, max_size=3),
}
deadlines = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"deadline_unix_ms": st.integers(10**12, 10**13)}, optional={"timeout_ms": st.none()}),
    st.fixed_dictionaries({"timeout_ms": positive}, optional={"deadline_unix_ms": st.none()}),
)
ids = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=256)
flags = st.none() | st.booleans()
instructions = st.none() | texts


def requests_of(task: str, required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    base = st.fixed_dictionaries({"id": ids, "task": st.just(task), **required}, optional=shared | optional)
    return st.tuples(base, deadlines).map(lambda both: both[0] | both[1])


valid_requests = st.one_of(
    requests_of(
        "rerank",
        {"query": texts, "documents": documents},
        {
            "top_n": positive,
            "return_documents": flags,
            "instruction": instructions,
            "max_tokens_per_doc": positive,
            "raw_scores": flags,
            "input": st.none(),
        },
    ),
    requests_of(
        "score",
        {"query": texts, "document": document},
        {"instruction": instructions, "raw_scores": flags, "documents": st.none()},
    ),
    requests_of("classify", {"input": document | documents}, {"top_k": positive, "raw_scores": flags}),
    requests_of(
        "embed",
        {"input": document | documents},
        {
            "dimensions": positive,
            "normalize": flags,
            "role": st.sampled_from([None, "query", "document"]),
            "encoding_format": st.sampled_from([None, "float", "base64"]),
            "raw_scores": st.none(),
        },
    ),
    requests_of("plugin", {"processor": st.text(min_size=1, max_size=10)}, {"data": json_trees}),
)


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
