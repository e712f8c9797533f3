"""Golden messages of version 1 are never edited: what was valid once stays valid and means the same for ever."""

import hashlib
import json

import jsonschema
import pytest

from schemas.dead_letter import NotReplayable, Reason, dead_letter, replayed, unread_dead_letter
from schemas.errors import ErrorCode
from schemas.export import dead_letter_headers_schema

from .golden import GOLDEN, golden_bytes


def golden_headers(name: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((key, text.encode()) for key, text in json.loads(golden_bytes(name)))


REASON = Reason(
    code=ErrorCode.SCHEMA,
    message="`documents[1].text` is required",
    id="r-3",
    source_topic="score.requests",
    source_partition=7,
    source_offset=9_000_000_000,
    source_timestamp_ms=1764435590123,
    group="scorestream",
    attempts=1,
    worker_version="0.1.0",
)


def test_a_dead_letter_has_exactly_the_golden_headers_and_can_be_replayed():
    headers = golden_headers("dead-letter.headers")
    letter = dead_letter(b"k", b"{}", headers[:1], REASON, max_bytes=1_000_000)
    assert (letter.key, letter.value, letter.headers) == (b"k", b"{}", headers)
    assert replayed(letter.key, letter.value, headers).headers == (
        headers[0],
        ("scorestream-replay-of", b"score.requests/7/9000000000"),
    )


def test_a_stub_has_exactly_the_golden_headers_and_cannot_be_replayed():
    headers = golden_headers("dead-letter.stub.headers")
    original = b"\xff" * 2_000_000
    reason = REASON._replace(
        code=ErrorCode.MALFORMED, message="the value is not UTF-8 at byte 0", id=None, source_offset=9_000_000_001
    )
    letter = dead_letter(None, original, (), reason, max_bytes=1_000_000)
    assert (letter.key, letter.value, letter.headers) == (None, b"", headers)
    assert hashlib.sha256(original).hexdigest().encode() == dict(headers)["scorestream-value-sha256"]
    with pytest.raises(NotReplayable, match="stub"):
        replayed(None, b"", headers)


def test_a_record_that_was_not_read_has_exactly_the_golden_headers_and_cannot_be_replayed():
    headers = golden_headers("dead-letter.unread.headers")
    reason = REASON._replace(
        code=ErrorCode.MALFORMED, message="the record was not read", id=None, source_offset=9_000_000_002
    )
    letter = unread_dead_letter(b"k", reason, max_bytes=1_000_000)
    assert (letter.key, letter.value, letter.headers) == (b"k", b"", headers)
    with pytest.raises(NotReplayable, match="stub"):
        replayed(b"k", b"", headers)


@pytest.mark.parametrize("name", ["dead-letter.headers", "dead-letter.stub.headers", "dead-letter.unread.headers"])
def test_the_published_schema_accepts_the_golden_headers(name):
    validator = jsonschema.Draft7Validator(dead_letter_headers_schema())
    validator.validate(dict(json.loads(golden_bytes(name))))


def test_every_golden_file_is_tested():
    assert {path.name.removesuffix(".json") for path in GOLDEN.glob("dead-letter.*.json")} == {
        "dead-letter.headers",
        "dead-letter.stub.headers",
        "dead-letter.unread.headers",
    }
