"""Which values are requests at all, which version they have, and when their id can be read."""

import pytest

from schemas.errors import ErrorCode

from .request_bytes import accepted, as_bytes, refused


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


def test_a_key_given_twice_further_in_leaves_the_id_readable():
    error = refused(b'{"id":"a","task":"plugin","processor":"p","data":{"id":1,"task":2,"id":3,"task":4}}')
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, "a", "plugin")


def test_a_bad_request_keeps_what_is_valid_of_id_task_and_metadata():
    error = refused(as_bytes(metadata={"m": [1, None]}, top_n=0))
    assert (error.id, error.task, error.metadata) == ("a", "rerank", {"m": [1, None]})
    error = refused(as_bytes(metadata={"m": "x" * 5000}, top_n=0))
    assert (error.id, error.task, error.metadata) == ("a", "rerank", None)
    error = refused(as_bytes(task="colbert", metadata={"m": 1}))
    assert (error.id, error.task, error.metadata) == ("a", None, {"m": 1})


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
        (b"{}{}", "several JSON objects"),
        (b'{"id":"a",}', "invalid JSON"),
        (b"{'id':'a'}", "single quotes"),
        (b'{"id":"a\nb"}', "invalid JSON"),
        (b'{"id":"\\x"}', "invalid JSON"),
        (b'{"id":01}', "invalid JSON"),
        (b'{"id":"a"} // note', "invalid JSON"),
        (b'{"id":"\xff"}', "UTF-8"),
        (b'{"id":"\xed\xa0\xbd"}', "UTF-8"),
        (b'\xef\xbb\xbf{"id":"a"}', "byte order mark"),
        ('{"id":"a"}'.encode("utf-16"), "UTF-16"),
        (b'\x00\x00\x00\x00\x07{"id":"a"}', "Confluent wire format"),
    ],
)
def test_what_is_not_one_utf8_json_object_is_malformed_and_has_no_id(value, word):
    error = refused(value)
    assert (error.code, error.id, error.task, error.metadata) == (ErrorCode.MALFORMED, None, None, None)
    assert word in error.message


@pytest.mark.parametrize(
    "value",
    [
        as_bytes(schema=2),
        as_bytes(schema=2.0),
        as_bytes(schema=2, documents={"future": True}, vectors=[1], task="colbert"),
        b'{"schema":99,"id":"a","x":NaN,"y":1,"y":2,"z":"\\ud83d"}',
    ],
)
def test_a_future_version_is_decided_before_any_other_field(value):
    error = refused(value)
    assert (error.code, error.id) == (ErrorCode.UNSUPPORTED_VERSION, "a")


@pytest.mark.parametrize("version", ["1", True, 0, 0.0, -1, [1], 1.5])
def test_a_version_that_is_no_version_breaks_the_contract(version):
    error = refused(as_bytes(schema=version))
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert "`schema`" in error.message
