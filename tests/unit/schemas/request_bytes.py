"""Requests as bytes, right and wrong, and what becomes of them."""

import json
from typing import Any

import pytest

from schemas.request import ClassifyRequest, EmbedRequest, PluginRequest, RerankRequest, ScoreRequest
from schemas.wire import RequestLimits, WireError, parse_request

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


def nested(levels: int) -> Any:
    tree: Any = []
    for _ in range(levels - 1):
        tree = [tree]
    return tree


ALL_MODELS = (RerankRequest, ScoreRequest, ClassifyRequest, EmbedRequest, PluginRequest)


def wire_names(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}
