"""The published schemas are what the models say, and agree with the worker wherever JSON Schema can express it."""

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.export import asyncapi_document, documents, drifted_files, request_schema, result_schema
from schemas.headers import result_headers
from schemas.request import REQUEST_MODELS
from schemas.wire import RequestLimits, WireError, encode_request, parse_request

from .request_bytes import BASES, wire_names
from .request_strategies import json_trees, names, trees, valid_requests

VALIDATOR = jsonschema.Draft7Validator(request_schema())


def test_the_published_files_are_up_to_date():
    assert drifted_files() == []
    check = [sys.executable, "-m", "schemas.export", "--check"]
    assert subprocess.run(check, check=False).returncode == 0


def test_a_stale_or_missing_file_is_noticed(tmp_path):
    for path, text in documents().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert drifted_files(tmp_path) == []
    first, second, *_ = documents()
    (tmp_path / first).write_text("{}")
    (tmp_path / second).unlink()
    assert drifted_files(tmp_path) == [first, second]


@pytest.mark.parametrize("path", [path for path in documents() if path.suffix == ".json"], ids=str)
def test_every_schema_is_a_valid_draft_7_schema_whose_references_resolve(path):
    schema = json.loads(documents()[path])
    jsonschema.Draft7Validator.check_schema(schema)
    assert list(jsonschema.Draft7Validator(schema).iter_errors([])) != []


@settings(max_examples=300)
@given(valid_requests)
def test_the_schema_accepts_what_the_worker_accepts(request):
    parse_request(encode_request(request), RequestLimits())
    VALIDATOR.validate(request)


@settings(max_examples=300)
@given(valid_requests, names, trees)
def test_what_the_schema_refuses_the_worker_refuses(request, name, content):
    changed = request | {name: content}
    if VALIDATOR.is_valid(changed):
        return
    with pytest.raises(WireError):
        parse_request(json.dumps(changed).encode(), RequestLimits())


@pytest.mark.parametrize(
    ("base", "fields"),
    [
        ("rerank", {"topn": 1}),
        ("rerank", {"topn": None}),
        ("rerank", {"input": "d"}),
        ("rerank", {"documents": []}),
        ("rerank", {"documents": "d"}),
        ("rerank", {"documents": [5]}),
        ("rerank", {"documents": [None]}),
        ("rerank", {"documents": [{"text": "d", "id": 7}]}),
        ("rerank", {"documents": [{"text": "d", "foo": None}]}),
        ("rerank", {"documents": [{"id": "i"}]}),
        ("rerank", {"query": None}),
        ("rerank", {"top_n": 0}),
        ("rerank", {"top_n": "2"}),
        ("rerank", {"top_n": True}),
        ("rerank", {"top_n": 2**63}),
        ("rerank", {"id": ""}),
        ("rerank", {"id": "a\n"}),
        ("rerank", {"id": "x" * 257}),
        ("rerank", {"id": None}),
        ("rerank", {"schema": 2}),
        ("rerank", {"schema": 0}),
        ("rerank", {"task": "colbert"}),
        ("rerank", {"task": None}),
        ("rerank", {"deadline_unix_ms": 1_764_435_600}),
        ("rerank", {"deadline_unix_ms": 10**12, "timeout_ms": 1}),
        ("rerank", {"priority": 101}),
        ("rerank", {"truncate": 1}),
        ("rerank", {"metadata": []}),
        ("classify", {"input": []}),
        ("classify", {"input": None}),
        ("embed", {"role": "passage"}),
        ("embed", {"encoding_format": "base16"}),
        ("embed", {"raw_scores": False}),
        ("plugin", {"processor": ""}),
    ],
)
def test_schema_and_worker_refuse_alike(base, fields):
    request: Any = BASES[base] | fields
    assert not VALIDATOR.is_valid(request)
    with pytest.raises(WireError):
        parse_request(json.dumps(request).encode(), RequestLimits())


FIELDS = sorted(
    (task, name) for task, model in REQUEST_MODELS.items() for name in wire_names(model) - {"metadata", "data"}
)
NEAR = [0, 1, 2, 99, 100, 101, -100, -101, 10**12, 10**13, 1_764_435_600_000, 2**53, 2**63 - 1, 2**63, 86_400]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(NEAR),
    st.sampled_from(NEAR).map(float),
    st.sampled_from(NEAR).map(lambda number: number + 0.5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "1", "1.0", "true", "null", "query", "document", "float", "base64", *REQUEST_MODELS]),
    st.text(max_size=3),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "text", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def worker_takes(value: bytes, limits: RequestLimits) -> bool:
    try:
        parse_request(value, limits)
    except WireError:
        return False
    return True


@pytest.mark.parametrize(("task", "name"), FIELDS)
@settings(max_examples=60)
@given(values)
def test_schema_and_worker_agree_on_every_value_of_every_field(task, name, value):
    """Wherever JSON Schema can say it: not how many items and what lifetime the worker's settings allow."""
    request = {**BASES[task], name: value}
    limits = RequestLimits(max_ttl_seconds=2**63 - 1)
    assert worker_takes(json.dumps(request).encode(), limits) == VALIDATOR.is_valid(request)


@settings(max_examples=100)
@given(json_trees)
def test_schema_and_worker_agree_on_what_is_free_form(tree):
    """But for size and depth."""
    for request in (BASES["plugin"] | {"data": tree}, BASES["embed"] | {"metadata": tree}):
        assert worker_takes(encode_request(request), RequestLimits()) == VALIDATOR.is_valid(request)


def test_requests_are_closed_and_results_are_open():
    definitions = request_schema()["definitions"]
    assert all(definition["additionalProperties"] is False for definition in definitions.values())
    result = result_schema()
    objects = [result, *result["definitions"].values()]
    assert all(definition["additionalProperties"] is True for definition in objects)


def test_every_published_field_is_explained():
    for definition in request_schema()["definitions"].values():
        unexplained = [name for name, field in definition["properties"].items() if "description" not in field]
        assert unexplained in ([], ["task"])


def test_asyncapi_names_the_three_topics_and_the_headers_that_results_carry():
    channels = asyncapi_document()["channels"].values()
    topics = [channel["address"] for channel in channels if "bindings" in channel]
    assert topics == ["score.requests", "score.results", "score.dead"]
    sent = dict(result_headers((), id="a", status="ok", source_topic="t", source_partition=0, source_offset=0))
    documented = asyncapi_document()["channels"]["results"]["messages"]["ScoreResult"]["headers"]
    assert documented["required"] == list(sent)


def test_asyncapi_says_of_equal_timestamps_what_the_fence_of_redis_does():
    """tests/contract/test_score_store.py has the same law as rows, over every store."""
    cache = asyncapi_document()["channels"]["cache"]
    assert cache["address"] == "score:{id}"
    assert "the higher offset and a record timestamp that is equal or later" in cache["description"]
    assert "the later record timestamp (of two equal ones, the last write stands)" in cache["description"]
