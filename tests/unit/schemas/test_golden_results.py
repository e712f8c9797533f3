"""Golden messages of version 1 are never edited: what was valid once stays valid and means the same for ever."""

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from schemas.errors import ErrorCode
from schemas.export import result_schema
from schemas.wire import parse_result, seal_result
from schemas.wire.exact_numbers import exact_number

from .golden import GOLDEN, golden_bytes

BANANAS = "Bananas are yellow."
TIMINGS = {"queue": 0.25, "prepare": 1.5, "engine": 7.125, "emit": 0.0, "total": 9.0008}
REFUSED_TIMINGS = {"queue": 0.0, "prepare": 0.0, "engine": 0.0, "emit": 0.125, "total": 0.25}
STAMP_IT = "have the producer stamp it in milliseconds, or give `deadline_unix_ms`"
CROSS_ENCODER = ("minilm-ce", "8d1f0c2", "5c9e2f60a7b41d38")


def sealed(timings: dict[str, float] = TIMINGS, **stated: Any) -> bytes:
    """A result's bytes from what differs between the golden ones."""
    fields: dict[str, Any] = {
        "status": "ok",
        "failed": [],
        "truncated": [],
        "error": None,
        "metadata": None,
        "dropped": [],
    }
    return seal_result(**fields | stated).finish(timings, 1764435590140)


def float32(number: float) -> Any:
    return np.float32(number)


RESULTS: dict[str, bytes] = {
    "result.rerank.ok": sealed(
        source=("score.requests", 3, 42, 1764435590123),
        id="r-1",
        task="rerank",
        model=CROSS_ENCODER,
        scale="sigmoid",
        results=[
            {"index": 1, "score": float32(0.1)},
            {"index": 0, "id": "sku-2", "score": float32(0.05), "document": BANANAS},
        ],
        truncated=[0],
        prompt_tokens=31,
        metadata={"experiment": "b", "weights": [0.1, 2**64 - 1, -(2**63)], "note": None},
    ),
    "result.rerank.partial": sealed(
        source=("score.requests", 3, 43, 1764435590124),
        id="r-2",
        task="rerank",
        model=("minilm-ce", None, "5c9e2f60a7b41d38"),
        scale="logit",
        results=[
            {"index": 2, "score": float32(-1.7394)},
            {"index": 0, "id": "empty", "error": {"code": "empty_input", "message": "the text has no content"}},
            {
                "index": 1,
                "error": {"code": "non_finite", "message": "the model returned a number that is not finite"},
            },
        ],
        failed=[0, 1],
        prompt_tokens=12,
    ),
    "result.score.ok": sealed(
        source=("score.requests", 0, 0, 1764435590123),
        id="s-1",
        task="score",
        model=CROSS_ENCODER,
        scale="cosine",
        results=[{"index": 0, "id": "doc-9", "score": float32(0.9698)}],
        prompt_tokens=18,
    ),
    "result.classify.ok": sealed(
        source=("score.requests", 0, 1, 1764435590123),
        id="c-1",
        task="classify",
        model=("minilm-cls", "8d1f0c2", "0b7d11e9c3a25f84"),
        scale="softmax",
        results=[
            {
                "index": 0,
                "labels": [
                    {"label": "neutral", "score": float32(0.9972)},
                    {"label": "positive", "score": float32(0.0023)},
                    {"label": "negative", "score": float32(0.0005)},
                ],
            }
        ],
        prompt_tokens=6,
    ),
    "result.embed.ok": sealed(
        source=("score.requests", 0, 2, 1764435590123),
        id="e-1",
        task="embed",
        model=("minilm", "8d1f0c2", "77aa0e4f9d51b6c2"),
        scale=None,
        results=[
            {"index": 0, "embedding": np.array([0.10325694, 0.03042018, -0.03732287], np.float32)},
            {"index": 1, "id": "p-2", "embedding": "AACAPwAAAEA="},
        ],
        prompt_tokens=9,
    ),
    "result.plugin.ok": sealed(
        source=("score.requests", 0, 3, 1764435590123),
        id="p-1",
        task="plugin",
        model=("prithvi", None, "c0ffee00c0ffee00"),
        scale=None,
        results=[{"index": 0, "data": {"mask": [1, None, 2.5]}}],
        prompt_tokens=0,
    ),
    "result.error": sealed(
        REFUSED_TIMINGS,
        status="error",
        source=("score.requests", 7, 9_000_000_000, 1764435590123),
        id="r-3",
        task="rerank",
        model=CROSS_ENCODER,
        scale=None,
        results=[],
        prompt_tokens=None,
        error=(ErrorCode.SCHEMA, "`documents[1].text` is required", 1),
        dropped=["metadata"],
    ),
    "result.error.all-dropped": sealed(
        REFUSED_TIMINGS,
        status="error",
        source=("score.requests", 7, 9_000_000_002, -1),
        id="r-5",
        task="score",
        model=CROSS_ENCODER,
        scale=None,
        results=[],
        prompt_tokens=None,
        error=(
            ErrorCode.SCHEMA,
            f"`timeout_ms` counts from the record's timestamp, and it has none: {STAMP_IT}",
            None,
        ),
        dropped=["metadata", "headers", "key"],
    ),
    "result.score.exact-metadata": sealed(
        source=("score.requests", 0, 4, 1764435590123),
        id="s-3",
        task="score",
        model=CROSS_ENCODER,
        scale="sigmoid",
        results=[{"index": 0, "score": float32(0.9698)}],
        prompt_tokens=18,
        metadata={"exact": exact_number("12345678901234567.89"), "small": exact_number("1e-400")},
    ),
    "result.error.no-task": sealed(
        REFUSED_TIMINGS,
        status="error",
        source=("score.requests", 7, 9_000_000_001, 1764435590123),
        id="r-4",
        task=None,
        model=CROSS_ENCODER,
        scale=None,
        results=[],
        prompt_tokens=None,
        error=(
            ErrorCode.UNSUPPORTED_VERSION,
            "`schema` is above 1, the newest version that this worker reads",
            None,
        ),
        metadata={"page": 3},
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_written_byte_for_byte_like_the_golden_one(name):
    assert RESULTS[name] == golden_bytes(name).rstrip(b"\n")


@pytest.mark.parametrize("name", [*RESULTS, "result.from-a-later-worker"])
def test_a_reader_keeps_every_field_of_a_golden_result(name):
    value = golden_bytes(name)
    jsonschema.Draft7Validator(result_schema()).validate(json.loads(value))
    assert parse_result(value).model_dump(mode="json", exclude_unset=True) == json.loads(value)


def test_a_reader_accepts_codes_scales_tasks_and_fields_of_a_later_worker():
    result = parse_result(golden_bytes("result.from-a-later-worker"))
    assert (result.task, result.scale) == ("late-interaction", "maxsim")
    assert result.error is not None
    assert result.error.code == "quota"
    assert result.model_extra == {"region": "eu"}


def test_every_golden_file_is_tested():
    assert {path.name.removesuffix(".json") for path in GOLDEN.glob("result.*.json")} == {
        *RESULTS,
        "result.from-a-later-worker",
    }
