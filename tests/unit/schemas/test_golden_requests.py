"""Golden messages of version 1 are never edited: what was valid once stays valid and means the same for ever."""

import json

import jsonschema
import pytest

from schemas.export import request_schema
from schemas.request import (
    ClassifyRequest,
    Document,
    EmbedRequest,
    PluginRequest,
    RerankRequest,
    ScoreRequest,
    ScoringRequest,
)
from schemas.wire import RequestLimits, encode_request, parse_request

from .golden import GOLDEN, golden_bytes

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
    "request.numbers": RerankRequest(
        schema_version=1,
        id="r-3",
        task="rerank",
        query="capital of France",
        documents=[Document(text=PARIS)],
        top_n=1,
        timeout_ms=1500,
        priority=-5,
        ttl_seconds=600,
        metadata={"exact": 12345678901234567.89, "small": 1e-400, "plain": [1.0, -0.0, 0.1]},
    ),
    "request.nulls": RerankRequest(
        id="n-1", task="rerank", query="capital of France", documents=[Document(text=PARIS)]
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_golden_request_means_what_it_always_meant(name):
    assert parse_request(golden_bytes(name), RequestLimits()) == REQUESTS[name]


def test_numbers_of_golden_metadata_are_written_with_the_digits_they_had():
    metadata = parse_request(golden_bytes("request.numbers"), RequestLimits()).metadata
    assert metadata is not None
    assert encode_request(metadata) == b'{"exact":12345678901234567.89,"small":1e-400,"plain":[1.0,-0.0,0.1]}'


@pytest.mark.parametrize("name", REQUESTS)
def test_the_published_schema_accepts_a_golden_request(name):
    jsonschema.Draft7Validator(request_schema()).validate(json.loads(golden_bytes(name)))


def test_every_golden_file_is_tested():
    assert {path.name.removesuffix(".json") for path in GOLDEN.glob("request.*.json")} == REQUESTS.keys()
