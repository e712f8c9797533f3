"""The result side of the contract: what is sealed is what a reader reads."""

import json
import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.errors import ErrorCode
from schemas.wire import SealedResult, parse_result, seal_result

TIMINGS = {"queue": 1.0, "prepare": 2.0, "engine": 3.0, "emit": 4.0, "total": 10.0}


def seal(**fields: Any) -> SealedResult:
    stated: dict[str, Any] = {
        "status": "ok",
        "source": ("t", 1, 2, 3),
        "id": "a",
        "task": "rerank",
        "model": ("m", "r", "f"),
        "scale": "logit",
        "results": [],
        "failed": [],
        "truncated": [],
        "prompt_tokens": 0,
        "error": None,
        "metadata": None,
        "dropped": [],
    }
    return seal_result(**stated | fields)


def finished(**fields: Any) -> dict[str, Any]:
    return json.loads(seal(**fields).finish(TIMINGS, 17))


def test_the_keys_stand_in_the_contract_s_order():
    error = (ErrorCode.INTERNAL, "m", 0)
    whole = finished(error=error, metadata={"a": 1}, dropped=["metadata"])
    assert list(whole) == [
        *("schema", "status", "source", "id", "task", "model", "scale", "results", "failed", "truncated", "usage"),
        *("timings_ms", "scored_at_unix_ms", "error", "metadata", "dropped"),
    ]
    assert list(whole["source"]) == ["topic", "partition", "offset", "timestamp_ms"]
    assert list(whole["timings_ms"]) == ["queue", "prepare", "engine", "emit", "total"]
    assert whole["error"] == {"code": "internal", "message": "m", "index": 0, "retryable": True}


def test_fields_that_do_not_apply_are_absent_except_scale():
    whole = finished(task=None, scale=None, prompt_tokens=None)
    assert whole.keys().isdisjoint({"task", "usage", "error", "metadata", "dropped"})
    assert whole["scale"] is None
    assert (whole["results"], whole["failed"], whole["truncated"]) == ([], [], [])
    assert "index" not in finished(error=(ErrorCode.SCHEMA, "m", None))["error"]


def test_schema_status_and_source_come_first_within_512_bytes():
    source = ("t" * 249, 2**31 - 1, 2**63 - 1, 2**63 - 1)
    head = seal(status="error", source=source, id="\U0001f600" * 256).head
    text = '{"schema":1,"status":"error","source":{"topic":"%s","partition":%d,"offset":%d,"timestamp_ms":%d},"id":'
    assert head.startswith((text % source).encode())
    assert len(text % source) <= 512


def test_empty_metadata_is_echoed():
    assert finished(metadata={})["metadata"] == {}


@given(hnp.from_dtype(np.dtype(np.float32), allow_nan=False, allow_infinity=False))
def test_a_score_is_the_shortest_decimal_of_its_float32(score):
    text = seal(results=[{"index": 0, "score": score}]).head.split(b'"score":')[1].split(b"}")[0]
    assert np.float32(text.decode()) == score
    assert float(text) == float(np.format_float_scientific(score, unique=True))


def test_a_tenth_is_printed_as_a_tenth():
    assert b'"score":0.1}' in seal(results=[{"index": 0, "score": np.float32(0.1)}]).head
    assert b'"embedding":[0.1,0.2]' in seal(results=[{"embedding": np.array([0.1, 0.2], np.float32)}]).head


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", [float, np.float32, np.float64, lambda number: np.array([1.0, number], np.float32)])
def test_a_number_that_is_not_finite_is_an_error_and_never_null(number, form):
    with pytest.raises(ValueError, match=r"results\[1\]\.labels\[0\]\.score is not a finite number|\[1\] is not"):
        seal(results=[{"index": 0}, {"index": 1, "labels": [{"score": form(number)}]}])
    with pytest.raises(ValueError, match="metadata"):
        seal(metadata={"a": form(number)})


@pytest.mark.parametrize("name", TIMINGS)
def test_a_timing_that_is_not_finite_is_an_error(name):
    with pytest.raises(ValueError, match="finite"):
        seal().finish(TIMINGS | {name: math.nan}, 17)


def test_null_in_a_text_and_null_in_a_plugin_s_data_are_not_mistaken_for_it():
    results = [{"index": 0, "document": "null", "data": {"a": [None, 1.5]}}]
    assert finished(results=results)["results"] == results


def test_timings_are_rounded_to_microseconds():
    whole = json.loads(seal().finish(TIMINGS | {"queue": 1.23456}, 17))
    assert whole["timings_ms"]["queue"] == 1.235
    assert whole["scored_at_unix_ms"] == 17


@given(st.lists(st.floats(0, 1e18), min_size=5, max_size=5), st.integers(0, 2**63 - 1))
def test_the_size_told_beforehand_is_never_exceeded_and_close(timings, moment):
    sealed = seal(metadata={"a": "b"})
    size_bytes = len(sealed.finish(dict(zip(TIMINGS, timings, strict=True)), moment))
    assert size_bytes <= sealed.size_bytes <= size_bytes + 200


@given(st.text(st.characters(), max_size=3000) | st.sampled_from(["\0" * 3000, "\U0001f600" * 3000, "\ud83d" * 3000]))
def test_an_error_takes_less_than_4_kb_whatever_its_message(message):
    error = finished(error=(ErrorCode.INTERNAL, message, 2**31))["error"]
    assert len(orjson.dumps(error)) <= 4000
    if len(message) <= 100 and message.isprintable():
        assert error["message"] == message


def test_metadata_is_echoed_as_equal_json_in_its_order():
    metadata = {"z": 2**64 - 1, "a": -(2**63), "f": 0.1, "n": None, "e": 1e-7}
    assert b'"metadata":' + orjson.dumps(metadata) + b"}" in seal(metadata=metadata).tail


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"\xff", b'{"schema":"x"}', b'{"results":["zqxj7"]}'])
def test_what_is_not_a_result_is_refused_without_repeating_it(value):
    with pytest.raises(ValueError, match="not a result") as caught:
        parse_result(value)
    assert "zqxj7" not in str(caught.value)


def test_a_reader_finds_the_item_by_its_index():
    items = [{"index": 1, "score": np.float32(0.5)}, {"index": 0, "id": "x", "error": {"code": "c", "message": "m"}}]
    result = parse_result(seal(results=items, failed=[0]).finish(TIMINGS, 17))
    assert [(item.index, item.id, item.score) for item in result.results] == [(1, None, 0.5), (0, "x", None)]
    assert result.results[1].error is not None
    assert result.results[1].error.code == "c"
