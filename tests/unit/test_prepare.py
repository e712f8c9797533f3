"""What a record's own timestamp and headers say of its request, before anything is tokenised."""

import json
from typing import Any

import pytest

from consumer.records import Prepared, Refusal, SourceRecord
from consumer.stages.prepare import EXPIRED, Preparer
from schemas.errors import ErrorCode
from schemas.wire import RequestLimits
from tests.unit.tasks.fakes import CROSS_ENCODER, WordEncoder, tasks

NOW = 1_764_435_600_000


def prepared(timestamp_ms: int, headers: Any = (), value: bytes | None = None, **fields: Any) -> Any:
    """What becomes of one score request that was written at that time."""
    encoder = WordEncoder()
    preparer = Preparer(tasks(CROSS_ENCODER), encoder, ("tiny",), RequestLimits())
    body = {"id": "r-1", "task": "score", "query": "q", "document": "d"} | fields
    record = SourceRecord("t", 0, 0, timestamp_ms, None, value or json.dumps(body).encode(), headers)
    [outcome] = preparer.prepare([record], NOW)
    return outcome


@pytest.mark.parametrize(
    ("timestamp_ms", "says"),
    [
        (-1, "it has none"),
        (0, "that is of 1970"),
        (1, "that is of 1970"),
        (NOW // 1000, "that is of 1970, as one in seconds is"),
        (NOW // 100_000, "that is of 1970"),
        (10**12 - 1, "that is of 2001"),
        (10**13 + 1, "after the year 2286"),
        (NOW * 1000, "as one in microseconds is"),
        (NOW * 10**6, "as one in microseconds is"),
        (2**63 - 1, "after the year 2286"),
        (-2, "before 1970"),
        (-(2**63), "before 1970"),
    ],
)
@pytest.mark.parametrize("timeout_ms", [1, 60_000, 2**62, 2**63 - 1])
def test_a_timeout_that_counts_from_no_time_in_milliseconds_breaks_the_contract(timestamp_ms, says, timeout_ms):
    """And is not `expired`: the same bytes would be refused for ever."""
    outcome = prepared(timestamp_ms, timeout_ms=timeout_ms)
    assert isinstance(outcome, Refusal)
    assert (outcome.code, outcome.id) == (ErrorCode.SCHEMA, "r-1")
    assert outcome.message.startswith("`timeout_ms` counts from the record's timestamp, and ")
    assert says in outcome.message
    assert "`deadline_unix_ms`" in outcome.message
    assert not outcome.code.retryable


@pytest.mark.parametrize("timestamp_ms", [-1, 0, NOW // 1000, NOW * 1000])
def test_a_timestamp_that_nothing_counts_from_may_be_anything(timestamp_ms):
    assert isinstance(prepared(timestamp_ms), Prepared)
    assert isinstance(prepared(timestamp_ms, deadline_unix_ms=NOW + 1), Prepared)
    assert prepared(timestamp_ms, deadline_unix_ms=NOW - 1).code == ErrorCode.EXPIRED


@pytest.mark.parametrize(("timestamp_ms", "timeout_ms"), [(10**12, 1), (NOW - 1000, 1000), (NOW - 1, 1)])
def test_a_timeout_that_is_over_is_expired(timestamp_ms, timeout_ms):
    outcome = prepared(timestamp_ms, timeout_ms=timeout_ms)
    assert (outcome.code, outcome.message) == (ErrorCode.EXPIRED, EXPIRED)


@pytest.mark.parametrize("timestamp_ms", [NOW, NOW - 999, 10**13, NOW + 1000])
def test_a_timeout_that_is_not_over_lets_the_request_in(timestamp_ms):
    assert isinstance(prepared(timestamp_ms, timeout_ms=1000), Prepared)


def test_a_value_that_is_no_json_is_explained_by_its_headers():
    headers = (("a", None), ("__value_schema_id", b"\x01" + bytes(16)))
    outcome = prepared(NOW, headers, value=b"\x06r-1\x0crerank")
    assert outcome.code == ErrorCode.MALFORMED
    assert "its header `__value_schema_id` is that of a schema registry's serialiser" in outcome.message


def test_a_request_may_carry_the_header_of_a_schema_registry():
    """Its serialiser for JSON writes plain JSON where the schema's id is a header."""
    assert isinstance(prepared(NOW, (("__value_schema_id", b"\x01" + bytes(16)),)), Prepared)
