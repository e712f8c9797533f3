"""The request side of the contract, sentence by sentence, from bytes."""

import json
import time
from typing import Any

import pytest

from schemas.errors import ErrorCode
from schemas.request import ClassifyRequest, Document, EmbedRequest, PluginRequest, RerankRequest, ScoreRequest
from schemas.wire import RequestLimits, WireError, encode_request, parse_request

LIMITS = RequestLimits()

BASES: dict[str, dict[str, Any]] = {
    "rerank": {"id": "a", "task": "rerank", "query": "q", "documents": ["d"]},
    "score": {"id": "a", "task": "score", "query": "q", "document": "d"},
    "classify": {"id": "a", "task": "classify", "input": "d"},
    "embed": {"id": "a", "task": "embed", "input": "d"},
    "plugin": {"id": "a", "task": "plugin", "processor": "p"},
}


def as_bytes(base: str = "rerank", /, **fields: Any) -> bytes:
    """A minimal request with `fields` on top; unlike orjson, json also writes what is wrong."""
    return json.dumps(BASES[base] | fields).encode()


def accepted(value: bytes, limits: RequestLimits = LIMITS) -> Any:
    return parse_request(value, limits)


def refused(value: bytes | None, limits: RequestLimits = LIMITS) -> WireError:
    with pytest.raises(WireError) as caught:
        parse_request(value, limits)
    assert 0 < len(caught.value.message) <= 1000
    return caught.value


# --- what is accepted


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


# --- the id


@pytest.mark.parametrize("good", ["a", "\u00e9" * 256, "\U0001f600" * 256, "{tenant}:1", " ", "\u200b", "\xa0"])
def test_an_id_of_1_to_256_code_points_is_accepted_unchanged(good):
    assert accepted(as_bytes(id=good)).id == good


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\n", "\n", "a\x00b", "\x7f", "\x85", "\x9f", 7, True, None, ["a"]])
def test_an_invalid_id_is_named_and_counts_as_unreadable(bad):
    error = refused(as_bytes(id=bad))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, None)
    assert "`id`" in error.message


def test_a_lone_surrogate_in_the_id_makes_it_unreadable():
    error = refused(b'{"id":"a\\ud83d","task":"embed","input":"d"}')
    assert (error.code, error.id) == (ErrorCode.SCHEMA, None)
    assert "`id`" in error.message


@pytest.mark.parametrize("value", [b'{"id":"a","id":"a","task":"embed"}', b'{"id":"a","task":"embed","id":"b"}'])
def test_an_id_given_twice_is_unreadable(value):
    error = refused(value)
    assert (error.code, error.id) == (ErrorCode.SCHEMA, None)
    assert "`id`" in error.message


def test_a_bad_request_keeps_what_is_valid_of_id_task_and_metadata():
    error = refused(as_bytes(metadata={"m": [1, None]}, top_n=0))
    assert (error.id, error.task, error.metadata) == ("a", "rerank", {"m": [1, None]})
    error = refused(as_bytes(metadata={"m": "x" * 5000}, top_n=0))
    assert (error.id, error.task, error.metadata) == ("a", "rerank", None)
    error = refused(as_bytes(task="colbert", metadata={"m": 1}))
    assert (error.id, error.task, error.metadata) == ("a", None, {"m": 1})


# --- not one JSON object


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "no value"),
        (b"", "empty"),
        (b"null", "null"),
        (b"[]", "array"),
        (b'"x"', "string"),
        (b"7", "number"),
        (b"true", "boolean"),
        (b"{", "invalid JSON"),
        (b"{}{}", "invalid JSON"),
        (b'{"id":"a",}', "invalid JSON"),
        (b"{'id':'a'}", "invalid JSON"),
        (b'{"id":"a\nb"}', "invalid JSON"),
        (b'{"id":"\\x"}', "invalid JSON"),
        (b'{"id":01}', "invalid JSON"),
        (b'{"id":"a"} // note', "invalid JSON"),
        (b'{"id":"\xff"}', "UTF-8"),
        (b'{"id":"\xed\xa0\xbd"}', "UTF-8"),
        (b'\xef\xbb\xbf{"id":"a"}', "byte order mark"),
        ('{"id":"a"}'.encode("utf-16"), "UTF-16"),
        ('{"id":"a"}'.encode("utf-16-le"), "invalid JSON"),
        (b'\x00\x00\x00\x00\x07{"id":"a"}', "Confluent wire format"),
    ],
)
def test_what_is_not_one_utf8_json_object_is_malformed_and_has_no_id(value, word):
    error = refused(value)
    assert (error.code, error.id, error.task, error.metadata) == (ErrorCode.MALFORMED, None, None, None)
    assert word in error.message


# --- the version comes first


@pytest.mark.parametrize(
    "value",
    [
        as_bytes(schema=2),
        as_bytes(schema=2, documents={"future": True}, vectors=[1], task="colbert"),
        b'{"schema":99,"id":"a","x":NaN,"y":1,"y":2,"z":"\\ud83d"}',
    ],
)
def test_a_future_version_is_decided_before_any_other_field(value):
    error = refused(value)
    assert (error.code, error.id) == (ErrorCode.UNSUPPORTED_VERSION, "a")


@pytest.mark.parametrize("version", ["1", True, 1.0, 0, -1, [1], 1.5])
def test_a_version_that_is_no_version_breaks_the_contract(version):
    error = refused(as_bytes(schema=version))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`schema`" in error.message


# --- strict: unknown fields, other tasks' fields, coercions


@pytest.mark.parametrize("name", ["topn", "inputs", "schema_version", "normalise", "a b"])
@pytest.mark.parametrize("content", [1, None])
def test_an_unknown_field_is_named_even_when_it_is_null(name, content):
    error = refused(as_bytes(**{name: content}))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert f"`{name}`" in error.message


@pytest.mark.parametrize("name", ["x" * 65, "a\nb", "\u202ecba", "\ud83d"])
def test_an_unknown_name_that_is_long_or_does_not_print_is_not_repeated(name):
    for value in (
        as_bytes(**{name: 1}),
        as_bytes(documents=[{"text": "d", name: 1}]),
        as_bytes(metadata={name: 1e999}),
    ):
        assert name not in refused(value).message


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("rerank", "input", "d"),
        ("rerank", "document", "d"),
        ("rerank", "top_k", 1),
        ("score", "documents", ["d"]),
        ("score", "top_n", 1),
        ("classify", "query", "q"),
        ("classify", "normalize", False),
        ("embed", "raw_scores", False),
        ("embed", "instruction", "i"),
        ("plugin", "query", "q"),
        ("plugin", "raw_scores", True),
    ],
)
def test_a_field_of_another_task_is_named_with_the_task(task, name, content):
    error = refused(as_bytes(task, **{name: content}))
    assert error.code == ErrorCode.SCHEMA
    assert error.message == f"`{name}` does not belong to task {task}"


@pytest.mark.parametrize("task", ["Rerank", "", "colbert", None, 7, [], {}, "embed "])
def test_a_task_that_the_contract_does_not_know_breaks_it(task):
    error = refused(as_bytes(task=task))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`task`" in error.message


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("rerank", "top_n", "2"),
        ("rerank", "top_n", 2.0),
        ("rerank", "top_n", True),
        ("rerank", "top_n", 0),
        ("rerank", "top_n", -1),
        ("rerank", "top_n", 10**30),
        ("rerank", "top_n", 2**63),
        ("rerank", "return_documents", 1),
        ("rerank", "return_documents", "true"),
        ("rerank", "max_tokens_per_doc", 0),
        ("rerank", "raw_scores", 0),
        ("rerank", "query", 5),
        ("rerank", "query", None),
        ("rerank", "query", ["q"]),
        ("rerank", "instruction", 5),
        ("rerank", "documents", "d"),
        ("rerank", "documents", {"0": "d"}),
        ("rerank", "documents", []),
        ("rerank", "documents", None),
        ("score", "document", ["d"]),
        ("score", "document", None),
        ("score", "document", {}),
        ("classify", "input", []),
        ("classify", "input", 5),
        ("classify", "input", None),
        ("classify", "top_k", 0),
        ("embed", "dimensions", 0),
        ("embed", "normalize", "false"),
        ("embed", "role", "passage"),
        ("embed", "encoding_format", "base16"),
        ("plugin", "processor", ""),
        ("plugin", "processor", None),
        ("embed", "model", 1),
        ("embed", "priority", 101),
        ("embed", "priority", -101),
        ("embed", "priority", 0.0),
        ("embed", "truncate", 1),
        ("embed", "timeout_ms", 0),
        ("embed", "timeout_ms", 1.5),
        ("embed", "ttl_seconds", 0),
        ("embed", "ttl_seconds", 86_401),
        ("embed", "metadata", []),
        ("embed", "metadata", "{}"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(task, name, content):
    error = refused(as_bytes(task, **{name: content}))
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, "a", task)
    assert f"`{name}" in error.message


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity", "1e999", '"NaN"'])
def test_a_number_field_takes_no_nan_and_no_infinity(name):
    error = refused(b'{"id":"a","task":"embed","input":"d","priority":' + name.encode() + b"}")
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`priority`" in error.message


@pytest.mark.parametrize(
    ("item", "where"),
    [
        (5, "`documents[1]`"),
        (None, "`documents[1]`"),
        (True, "`documents[1]`"),
        (["d"], "`documents[1]`"),
        ({}, "`documents[1].text`"),
        ({"text": None}, "`documents[1].text`"),
        ({"text": 5}, "`documents[1].text`"),
        ({"text": "d", "id": 7}, "`documents[1].id`"),
        ({"text": "d", "id": ""}, "`documents[1].id`"),
        ({"text": "d", "id": "x" * 257}, "`documents[1].id`"),
        ({"text": "d", "content": "c"}, "`content`"),
        ({"text": "d", "id": "i", "content": None}, "`content`"),
    ],
)
def test_a_bad_document_is_named_by_its_index(item, where):
    error = refused(as_bytes(documents=["d", item, "d"]))
    assert (error.code, error.id, error.index) == (ErrorCode.SCHEMA, "a", 1)
    assert where in error.message


def test_a_fault_that_is_no_item_s_names_no_index():
    assert refused(as_bytes(documents=["d", 5], top_n=0)).index is None
    assert refused(as_bytes(documents=[])).index is None


# --- deadlines and limits


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


def nested(levels: int) -> Any:
    tree: Any = []
    for _ in range(levels - 1):
        tree = [tree]
    return tree


def test_metadata_is_at_most_32_levels_deep():
    assert accepted(as_bytes(metadata={"m": nested(31)}))
    assert "`metadata` is nested deeper than 32 levels" in refused(as_bytes(metadata={"m": nested(32)})).message


def test_a_request_is_at_most_64_levels_deep():
    assert accepted(as_bytes("plugin", data=nested(63)))
    for levels in (64, 199, 250):
        error = refused(as_bytes("plugin", data=nested(levels)))
        assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
        assert "`data` is nested deeper than 64 levels" in error.message


def test_a_hundred_thousand_levels_are_refused_at_once():
    error = refused(b'{"id":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert error.code == ErrorCode.SCHEMA
    assert "deeper than 64 levels" in error.message


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


# --- bounded answers to unbounded faults


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


ALL_MODELS = (RerankRequest, ScoreRequest, ClassifyRequest, EmbedRequest, PluginRequest)


def wire_names(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}
