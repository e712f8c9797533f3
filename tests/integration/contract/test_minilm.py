"""A real embedding model in vLLM, asked by kcat: the wire is the contract's, and the numbers are the model's."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from tests.integration.contract.deployment import Deployment, deployed
from tests.integration.contract.outside import Record
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode

pytestmark = pytest.mark.vllm

QUERY = "how do I sort a list?"
DOCUMENTS = [{"id": "sky", "text": "the sky is blue"}, "sorted(x) returns a new sorted list", {"text": ""}]
RERANK = {"task": "rerank", "query": QUERY, "documents": DOCUMENTS}
TEXTS = [QUERY, "the sky is blue", "sorted(x) returns a new sorted list"]
EMBED = {"task": "embed", "input": TEXTS}
CLOSE = 1e-5
LONG = "sort " * 1000

REQUESTS: dict[str, dict[str, Any]] = {
    "floats": EMBED,
    "base64": EMBED | {"encoding_format": "base64"},
    "not normalised": EMBED | {"normalize": False},
    "of its whole length": EMBED | {"dimensions": 384},
    "of a role": EMBED | {"role": "query"},
    "of the other role": EMBED | {"role": "document"},
    "rerank": RERANK,
    "the best": RERANK | {"top_n": 1, "return_documents": True},
    "pair": {"task": "score", "query": QUERY, "document": {"id": "d", "text": TEXTS[2]}},
    "cut": {"task": "embed", "input": [{"id": "long", "text": LONG}, "short"], "truncate": True},
    "not cut": {"task": "embed", "input": [{"id": "long", "text": LONG}, "short"], "truncate": False},
}
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "dimensions": (EMBED | {"dimensions": 64}, "schema", "`dimensions`"),
    "a document elsewhere": (RERANK | {"documents": ["a", "https://example.org/a.png"]}, "schema", "`documents[1]`"),
    "raw cosines": (RERANK | {"raw_scores": True}, "schema", "`raw_scores`"),
    "instruction": (RERANK | {"instruction": "i"}, "schema", "`instruction`"),
    "classify": ({"task": "classify", "input": "text"}, "unsupported_task", "`classify`"),
    "an empty query": (RERANK | {"query": " "}, "empty_input", "`query`"),
    "a query too long": (RERANK | {"query": LONG}, "too_long", "`query`"),
    "another model": (EMBED | {"model": "another"}, "wrong_model", "`model`"),
}


@pytest_asyncio.fixture(scope="module")
async def worker(
    kafka: KafkaNode, redis: RedisNode, minilm_embed: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """It has got every request."""
    settings = {
        "engine.kind": "vllm",
        "engine.model": minilm_embed,
        "engine.dtype": "float32",
        "engine.max_num_seqs": 64,
        "engine.args": json.dumps({"enforce_eager": True}),
        "limits.truncate": "false",
    }
    with pytest.MonkeyPatch.context() as environment:
        # Of the CPU's memory, for a cache that encoders do not use.
        environment.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        context = deployed(kafka, redis, tmp_path_factory.mktemp("minilm"), settings)
        async with context as deployment:
            bodies = REQUESTS | {name: body for name, (body, _, _) in REFUSED.items()}
            await deployment.publish(*(json.dumps({"id": name} | body).encode() for name, body in bodies.items()))
            yield deployment


async def answer(worker: Deployment, name: str) -> dict[str, Any]:
    record = await worker.result(name)
    assert record.message["status"] == "ok", record.message["error"]
    return record.message


async def vectors(worker: Deployment, name: str) -> list[np.ndarray]:
    message = await answer(worker, name)
    assert [one["index"] for one in message["results"]] == list(range(len(TEXTS)))
    return [np.asarray(one["embedding"], np.float32) for one in message["results"]]


async def test_base64_is_the_same_little_endian_float32(worker: Deployment) -> None:
    floats = await vectors(worker, "floats")
    for one, vector in zip((await answer(worker, "base64"))["results"], floats, strict=True):
        decoded = np.frombuffer(base64.b64decode(one["embedding"], validate=True), "<f4")
        assert len(decoded) == 384
        # A second computation, and a batch of another shape: equal within float32.
        np.testing.assert_allclose(decoded, vector, atol=CLOSE)


async def test_vectors_have_length_1_unless_asked_otherwise(worker: Deployment) -> None:
    floats, raw = await vectors(worker, "floats"), await vectors(worker, "not normalised")
    for unit, whole in zip(floats, raw, strict=True):
        assert np.linalg.norm(unit) == pytest.approx(1, abs=CLOSE)
        assert abs(np.linalg.norm(whole) - 1) > 0.1
        np.testing.assert_allclose(whole / np.linalg.norm(whole), unit, atol=CLOSE)


async def test_dimensions_of_the_whole_length_are_all(worker: Deployment) -> None:
    for found, whole in zip(await vectors(worker, "of its whole length"), await vectors(worker, "floats"), strict=True):
        np.testing.assert_allclose(found, whole, atol=CLOSE)


async def test_roles_of_a_model_without_prompts_are_equal(worker: Deployment) -> None:
    queries, documents = await vectors(worker, "of a role"), await vectors(worker, "of the other role")
    np.testing.assert_allclose(queries, documents, atol=CLOSE)


async def test_rerank_scores_are_the_cosines_of_the_vectors(worker: Deployment) -> None:
    """Best first, with the documents' ids; the empty one is an item error in the end."""
    query, sky, sorted_list = await vectors(worker, "floats")
    message = await answer(worker, "rerank")
    best, other, empty = message["results"]
    assert message["scale"] == "cosine"
    assert (best["index"], other["index"], other["id"], empty["index"]) == (1, 0, "sky", 2)
    assert best["score"] == pytest.approx(float(query @ sorted_list), abs=CLOSE)
    assert other["score"] == pytest.approx(float(query @ sky), abs=CLOSE)
    assert (empty["error"]["code"], message["failed"]) == ("empty_input", [2])
    pair = (await answer(worker, "pair"))["results"]
    assert (pair[0]["index"], pair[0]["id"]) == (0, "d")
    assert pair[0]["score"] == pytest.approx(best["score"], abs=CLOSE)


async def test_top_n_returns_the_best_document_itself(worker: Deployment) -> None:
    best, empty = (await answer(worker, "the best"))["results"]
    assert (best["index"], best["document"], empty["index"]) == (1, DOCUMENTS[1], 2)


async def test_what_does_not_fit_is_cut_and_reported_or_refused(worker: Deployment) -> None:
    """The request's `truncate` above the worker's setting."""
    cut, refused = await answer(worker, "cut"), await answer(worker, "not cut")
    assert (cut["truncated"], cut["failed"]) == ([0], [])
    assert (refused["truncated"], refused["failed"]) == ([], [0])
    long, short = refused["results"]
    assert (long["id"], long["error"]["code"], "embedding" in short) == ("long", "too_long", True)


async def test_the_model_is_named_and_fingerprinted(worker: Deployment, minilm_embed: Path) -> None:
    models = [(await answer(worker, name))["model"] for name in REQUESTS]
    assert {one["name"] for one in models} == {minilm_embed.name}
    assert len({one["fingerprint"] for one in models}) == 1
    assert models[0]["fingerprint"]


@pytest.mark.parametrize("name", REFUSED)
async def test_what_this_model_cannot_do_is_refused(worker: Deployment, name: str) -> None:
    _, code, says = REFUSED[name]
    error = (await worker.result(name)).message["error"]
    assert error["code"] == code
    assert says in error["message"]


async def test_results_are_in_request_order_and_cached(worker: Deployment) -> None:
    names = [*REQUESTS, *REFUSED]
    records: list[Record] = [await worker.result(name) for name in names]
    assert [record.message["id"] for record in worker.results.records] == names
    for name, record in zip(names, records, strict=True):
        await worker.holds(name, record.value)
