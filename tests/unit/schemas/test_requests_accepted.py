"""What the contract allows in a request, sentence by sentence, from bytes."""

import json

import pytest

from schemas.request import ClassifyRequest, Document, EmbedRequest, PluginRequest, RerankRequest, ScoreRequest
from schemas.wire import encode_request

from .request_bytes import ALL_MODELS, BASES, accepted, as_bytes, wire_names


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("rerank", RerankRequest),
        ("score", ScoreRequest),
        ("classify", ClassifyRequest),
        ("embed", EmbedRequest),
        ("plugin", PluginRequest),
    ],
)
def test_a_minimal_request_of_each_task_is_accepted_with_the_contract_s_defaults(task, model):
    request = accepted(as_bytes(task))
    assert type(request) is model
    assert request.schema_version == 1
    assert request.priority == 0
    assert request.truncate is None
    assert request.model is request.deadline_unix_ms is request.timeout_ms is request.ttl_seconds is None
    assert request.metadata is None


def test_a_document_list_mixes_strings_and_objects():
    request = accepted(as_bytes(documents=["x", {"text": "y"}, {"id": "7", "text": ""}]))
    assert request.documents == [Document(text="x"), Document(text="y"), Document(id="7", text="")]


@pytest.mark.parametrize("task", ["classify", "embed"])
@pytest.mark.parametrize("single", ["d", {"id": "7", "text": "d"}])
def test_input_is_one_document_or_a_list(task, single):
    assert accepted(as_bytes(task, input=single)).inputs == accepted(as_bytes(task, input=[single])).inputs


def test_vectors_are_normalised_floats_unless_asked_otherwise():
    request = accepted(as_bytes("embed"))
    assert (request.normalize, request.encoding_format, request.role, request.dimensions) == (True, "float", None, None)


@pytest.mark.parametrize("task", BASES)
def test_null_equals_absent_for_every_optional_field_and_for_fields_of_other_tasks(task):
    every_field = {alias for model in ALL_MODELS for alias in wire_names(model)}
    nulls = {name: None for name in every_field if name not in BASES[task]}
    assert accepted(as_bytes(task, **nulls)) == accepted(as_bytes(task))


def test_null_equals_absent_inside_a_document():
    assert accepted(as_bytes(documents=[{"id": None, "text": "d"}])).documents == [Document(text="d")]


def test_null_inside_metadata_and_data_is_the_caller_s_own():
    request = accepted(as_bytes("plugin", metadata={"a": None}, data={"b": [None]}))
    assert (request.metadata, request.data) == ({"a": None}, {"b": [None]})


def test_metadata_keeps_key_order_wide_integers_and_floats():
    text = b'{"z":9223372036854775807,"a":18446744073709551615,"m":-9223372036854775808,"f":0.1,"e":1e-7,"n":-0.0}'
    request = accepted(b'{"id":"a","task":"embed","input":"d","metadata":' + text + b"}")
    assert encode_request(request.metadata) == text


def test_what_encode_request_writes_parses_again():
    request = BASES["rerank"] | {"metadata": {"\u00e9": "\u6cd5"}}
    assert accepted(encode_request(request)) == accepted(json.dumps(request).encode())


@pytest.mark.parametrize("text", ["\0", "\U0001f600", "e\u0301", "\ufffd", " ", ""])
def test_any_real_unicode_text_is_kept_as_it_is(text):
    assert accepted(as_bytes(query=text, documents=[text])).documents[0].text == text
