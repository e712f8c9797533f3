"""Golden messages of version 1 are never edited: what was valid once stays valid and means the same for ever."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from schemas.dead_letter import NotReplayable, Reason, dead_letter, replayed
from schemas.errors import ErrorCode
from schemas.export import dead_letter_headers_schema, request_schema, result_schema
from schemas.request import (
    ClassifyRequest,
    Document,
    EmbedRequest,
    PluginRequest,
    RerankRequest,
    ScoreRequest,
    ScoringRequest,
)
from schemas.wire import RequestLimits, parse_request, parse_result, seal_result

GOLDEN = Path(__file__).parents[3] / "schemas" / "examples" / "v1"

PARIS = "Paris is the capital of France."
BANANAS = "Bananas are yellow."

REQUESTS: dict[str, ScoringRequest] = {
    "request.rerank.minimal": RerankRequest(
        id="r-1",
        task="rerank",
        query="capital of France",
        documents=[Document(text=PARIS), Document(text=BANANAS)],
    ),
    "request.rerank.full": RerankRequest(
        schema_version=1,
        id="{tenant-7}:search/2026-11-29#1",
        task="rerank",
        query="capital of France",
        documents=[
            Document(text=PARIS),
            Document(id="sku-2", text=BANANAS),
            Document(text="\u6cd5\u56fd\u7684\u9996\u90fd\u662f\u5df4\u9ece\u3002"),
        ],
        top_n=2,
        return_documents=True,
        instruction="Given a web search query, retrieve passages that answer it",
        max_tokens_per_doc=256,
        raw_scores=True,
        model="minilm-ce",
        deadline_unix_ms=1764435600000,
        priority=-5,
        truncate=False,
        ttl_seconds=600,
        metadata={"experiment": "b", "weights": [0.1, 2**64 - 1, -(2**63)], "note": None},
    ),
    "request.score.minimal": ScoreRequest(
        id="s-1", task="score", query="capital of France", document=Document(text=PARIS)
    ),
    "request.score.full": ScoreRequest(
        schema_version=1,
        id="s-2",
        task="score",
        query="capital of France",
        document=Document(id="doc-9", text=PARIS),
        instruction="Judge whether the document answers the query",
        raw_scores=True,
        model="minilm-ce",
        timeout_ms=1500,
        priority=100,
        truncate=True,
        ttl_seconds=1,
        metadata={},
    ),
    "request.classify.minimal": ClassifyRequest(id="c-1", task="classify", inputs=[Document(text="it is a table")]),
    "request.classify.full": ClassifyRequest(
        schema_version=1,
        id="c-2",
        task="classify",
        inputs=[Document(text="it is a table"), Document(id="review-3", text="it is not")],
        top_k=1,
        raw_scores=True,
        model="minilm-cls",
        timeout_ms=1500,
        priority=1,
        truncate=True,
        ttl_seconds=86400,
        metadata={"page": 3},
    ),
    "request.embed.minimal": EmbedRequest(id="e-1", task="embed", inputs=[Document(text=PARIS)]),
    "request.embed.full": EmbedRequest(
        schema_version=1,
        id="e-2",
        task="embed",
        inputs=[Document(text=PARIS), Document(id="p-2", text="")],
        dimensions=128,
        normalize=False,
        role="document",
        encoding_format="base64",
        model="minilm",
        timeout_ms=1500,
        priority=0,
        truncate=False,
        ttl_seconds=3600,
        metadata={"page": 3},
    ),
    "request.plugin.minimal": PluginRequest(id="p-1", task="plugin", processor="geo-tiles"),
    "request.plugin.full": PluginRequest(
        schema_version=1,
        id="p-2",
        task="plugin",
        processor="geo-tiles",
        data={"tile": [1, 2.5, None], "format": "tiff"},
        model="prithvi",
        timeout_ms=1500,
        priority=0,
        truncate=False,
        ttl_seconds=3600,
        metadata={"page": 3},
    ),
    "request.nulls": RerankRequest(
        id="n-1", task="rerank", query="capital of France", documents=[Document(text=PARIS)]
    ),
}

TIMINGS = {"queue": 0.25, "prepare": 1.5, "engine": 7.125, "emit": 0.0, "total": 9.0008}
REFUSED_TIMINGS = {"queue": 0.0, "prepare": 0.0, "engine": 0.0, "emit": 0.125, "total": 0.25}
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


def golden_bytes(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


def golden_headers(name: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((key, text.encode()) for key, text in json.loads(golden_bytes(name)))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_golden_request_means_what_it_always_meant(name):
    assert parse_request(golden_bytes(name), RequestLimits()) == REQUESTS[name]


@pytest.mark.parametrize("name", REQUESTS)
def test_the_published_schema_accepts_a_golden_request(name):
    jsonschema.Draft7Validator(request_schema()).validate(json.loads(golden_bytes(name)))


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


@pytest.mark.parametrize("name", ["dead-letter.headers", "dead-letter.stub.headers"])
def test_the_published_schema_accepts_the_golden_headers(name):
    validator = jsonschema.Draft7Validator(dead_letter_headers_schema())
    validator.validate(dict(json.loads(golden_bytes(name))))


def test_every_golden_file_is_tested():
    tested = {*REQUESTS, *RESULTS, "result.from-a-later-worker", "dead-letter.headers", "dead-letter.stub.headers"}
    assert {path.stem for path in GOLDEN.glob("*.json")} == tested
