"""What a result looks like, byte by byte where the contract says bytes."""

import json
import math
import re
import struct
import unicodedata
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from tests.integration.contract.deployment import PARTITIONS, Deployment, deployed
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode

HEAD = re.compile(
    rb'\{"schema":1,"status":"(ok|error)",'
    rb'"source":\{"topic":"[^"]+","partition":\d+,"offset":\d+,"timestamp_ms":\d+\}'
)
ORDER = ["schema", "status", "source", "id", "task", "model", "scale", "results", "failed", "truncated", "usage"]
ORDER += ["timings_ms", "scored_at_unix_ms", "error", "metadata", "dropped"]
MUST = ["schema", "status", "source", "id", "model", "scale", "results", "failed", "truncated", "timings_ms"]
SCORE = {"task": "score", "query": "how to sort a list", "document": "sorted(x)"}
DOCUMENTS: list[Any] = [
    "the sky is blue",
    {"id": "sorted", "text": "sorted(x) returns a new list"},
    {"id": "refused", "text": "!reject"},
    {"text": "x.sort() sorts in place"},
    {"id": "sky", "text": "the sky is blue"},
    "",
    {"id": "nan", "text": "!nan"},
]
RERANK = {"task": "rerank", "query": "how to sort a list", "documents": DOCUMENTS}


@pytest_asyncio.fixture(scope="module")
async def worker(
    kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    async with deployed(kafka, redis, tmp_path_factory.mktemp("results")) as deployment:
        yield deployment


def request(request_id: str, base: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"id": request_id} | base | fields).encode()


async def answer(worker: Deployment, request_id: str, base: dict[str, Any], **fields: Any) -> dict[str, Any]:
    await worker.publish(request(request_id, base, **fields))
    return (await worker.result(request_id)).message


def numbers(value: bytes) -> list[str]:
    """Every score of a result, as it is written."""
    return re.findall(r'"score":([^,}\]]+)', value.decode())


async def test_fields_stand_in_the_contracts_order(worker: Deployment) -> None:
    """Schema, status and source come first, within 512 bytes, whether the request is answered or not."""
    await worker.publish(
        request("all fields", RERANK, metadata={"m": 1}),
        request("an error", SCORE, metadata={"m": 1}, topn=1),
        request("no task", {"query": "q"}),
    )
    for request_id in ("all fields", "an error", "no task"):
        record = await worker.result(request_id)
        assert record.value is not None
        head = HEAD.match(record.value[:512])
        assert head, record.value[:600]
        assert head[1].decode() == record.message["status"]
        assert list(record.message) == sorted(record.message, key=ORDER.index)
        assert set(MUST) <= set(record.message)
    assert "task" not in record.message, "unknown fields are absent, not null"
    assert record.message["scale"] is None, "the scale is never absent"


async def test_the_source_is_the_requests_place_in_kafka(worker: Deployment) -> None:
    await worker.publish(request("placed", SCORE), partition=2, key=b"k")
    sent = await worker.requests.first(lambda one: one.message["id"] == "placed", "the request")
    record = await worker.result("placed")
    assert record.message["source"] == {
        "topic": sent.topic,
        "partition": sent.partition,
        "offset": sent.offset,
        "timestamp_ms": sent.timestamp_ms,
    }
    assert abs(record.message["scored_at_unix_ms"] - record.timestamp_ms) < 10_000, "the record's is that of writing"


async def test_results_keep_partition_and_order(worker: Deployment) -> None:
    """The same partition number, request order within it, refused requests in their place, two topics' order equal."""
    for partition in range(PARTITIONS):
        values = [request(f"order-{partition}-{number}", SCORE, priority=-number) for number in range(20)]
        values[7:7] = [request(f"order-{partition}-bad", SCORE, priority=1000)]
        await worker.publish(*values, partition=partition)
    for partition in range(PARTITIONS):
        await worker.result(f"order-{partition}-19")
        found = [one for one in worker.results.records if one.message["id"].startswith(f"order-{partition}-")]
        assert {one.partition for one in found} == {partition}
        numbered = [f"order-{partition}-{number}" for number in range(20)]
        assert [one.message["id"] for one in found] == [*numbered[:7], f"order-{partition}-bad", *numbered[7:]]


async def test_the_same_id_sent_twice_is_scored_twice(worker: Deployment) -> None:
    await worker.publish(request("twice", SCORE), request("twice", SCORE))
    first, second = await worker.results_of("twice", 2)
    assert first.message["source"]["offset"] + 1 == second.message["source"]["offset"]
    assert first.message["results"] == second.message["results"]


async def test_ids_are_compared_byte_for_byte(worker: Deployment) -> None:
    """Composed and decomposed letters are two ids; 256 code points of four bytes are one; none is normalised."""
    composed = "caf\u00e9"
    ids = [composed, unicodedata.normalize("NFD", composed), "\U0001f600" * 256, "a{tag}b:c d/\"'\\"]
    await worker.publish(*(request(one, SCORE) for one in ids))
    for one in ids:
        record = await worker.result(one)
        assert record.message["id"] == one
        await worker.holds(one, record.value)


async def test_rerank_orders_best_first_then_failures_by_index(worker: Deployment) -> None:
    """Ties by index; each element has its index, the document's id, and a score or an error. No dead letter for one."""
    message = await answer(worker, "partial", RERANK)
    elements = message["results"]
    scored, failed = elements[:4], elements[4:]
    assert message["status"] == "ok"
    assert sorted(one["index"] for one in scored) == [0, 1, 3, 4]
    assert [(-one["score"], one["index"]) for one in scored] == sorted((-one["score"], one["index"]) for one in scored)
    scores = {one["index"]: one["score"] for one in scored}
    assert scores[0] == scores[4], "equal texts tie"
    assert [(one["index"], one.get("id"), one["error"]["code"]) for one in failed] == [
        (2, "refused", "engine_rejected"),
        (5, None, "empty_input"),
        (6, "nan", "non_finite"),
    ]
    for one in elements:
        document = DOCUMENTS[one["index"]]
        assert one.get("id") == (document.get("id") if isinstance(document, dict) else None)
        assert ("score" in one) != ("error" in one), "exactly one of the two"
        assert set(one) <= {"index", "id", "score", "error"}
    assert (message["failed"], message["truncated"]) == ([2, 5, 6], [])
    assert not [one for one in worker.dead_letters.records if one.header("scorestream-id") == "partial"]


async def test_top_n_counts_scored_items(worker: Deployment) -> None:
    whole = (await answer(worker, "every", RERANK))["results"]
    two = (await answer(worker, "two", RERANK, top_n=2))["results"]
    assert two == whole[:2] + whole[4:], "the two best, and every failed one"
    assert (await answer(worker, "many", RERANK, top_n=2**62))["results"] == whole


async def test_return_documents_repeats_the_text(worker: Deployment) -> None:
    elements = (await answer(worker, "texts", RERANK, return_documents=True))["results"]
    for one in elements[:4]:
        document = DOCUMENTS[one["index"]]
        assert one["document"] == (document["text"] if isinstance(document, dict) else document)


async def test_what_was_cut_is_reported(worker: Deployment) -> None:
    """By index, whether the model's length or the request's own cap did it."""
    documents = ["short", "word " * 600, "a b c"]
    message = await answer(worker, "cut", RERANK, documents=documents)
    assert message["truncated"] == [1]
    capped = await answer(worker, "capped", RERANK, documents=documents, max_tokens_per_doc=2)
    assert capped["truncated"] == [1, 2]
    assert capped["usage"]["prompt_tokens"] < message["usage"]["prompt_tokens"]
    refused = await answer(worker, "not cut", RERANK, documents=documents, truncate=False)
    assert (refused["failed"], refused["results"][-1]["error"]["code"]) == ([1], "too_long")


async def test_classify_gives_labels_per_input_in_order(worker: Deployment) -> None:
    message = await answer(worker, "labels", {"task": "classify", "input": ["one", {"id": "b", "text": "two"}]})
    assert [(one["index"], one.get("id")) for one in message["results"]] == [(0, None), (1, "b")]
    assert message["scale"] == "sigmoid"
    for one in message["results"]:
        assert [set(label) for label in one["labels"]] == [{"label", "score"}]


async def test_raw_scores_are_the_logits(worker: Deployment) -> None:
    activated = await answer(worker, "activated", SCORE)
    logit = await answer(worker, "logit", SCORE, raw_scores=True)
    assert (activated["scale"], logit["scale"]) == ("sigmoid", "logit")
    expected = 1 / (1 + math.exp(-logit["results"][0]["score"]))
    assert activated["results"][0]["score"] == pytest.approx(expected, rel=1e-6)


async def test_scores_are_the_shortest_decimals_of_their_float32(worker: Deployment) -> None:
    documents = [f"document number {number}" for number in range(300)]
    await worker.publish(request("floats", RERANK, documents=documents, raw_scores=True))
    written = numbers((await worker.result("floats")).value or b"")
    assert len(written) == 300
    for text in written:
        (single,) = struct.unpack("<f", struct.pack("<f", float(text)))
        assert Decimal(text) == Decimal(str(np.float32(single))), "and nothing longer"


async def test_metadata_is_echoed_as_equal_json(worker: Deployment) -> None:
    """By answers and by errors."""
    metadata = {"n": [1, -1.5, 1e300, 2**64 - 1, -(2**63), 0.1], "": {"\u00fc\u0000": None, "b": [True, False, {}]}}
    assert (await answer(worker, "echo", SCORE, metadata=metadata))["metadata"] == metadata
    assert (await answer(worker, "echo of an error", SCORE, metadata=metadata, topn=1))["metadata"] == metadata
    assert "metadata" not in await answer(worker, "no echo", SCORE)


async def test_timings_tell_the_stages(worker: Deployment) -> None:
    timings = (await answer(worker, "timings", SCORE))["timings_ms"]
    assert list(timings) == ["queue", "prepare", "engine", "emit", "total"]
    assert all(one >= 0 for one in timings.values())
    assert timings["engine"] > 0
    assert timings["total"] >= sum(timings[stage] for stage in ("queue", "prepare", "engine", "emit")) - 0.01


async def test_redis_holds_the_same_bytes(worker: Deployment) -> None:
    await worker.publish(
        request("bytes", RERANK, metadata={"\u20ac": "\u2028"}), request("bytes of an error", SCORE, x=1)
    )
    for request_id in ("bytes", "bytes of an error"):
        record = await worker.result(request_id)
        await worker.holds(request_id, record.value)


@pytest.mark.parametrize("key", [None, b"entity-7", b"\xff\xfe\x01 key"], ids=["null", "text", "bytes"])
async def test_the_key_is_carried(worker: Deployment, key: bytes | None) -> None:
    await worker.publish(request(f"key {key!r}", SCORE), key=key)
    assert (await worker.result(f"key {key!r}")).key == key


@pytest.mark.parametrize("bad", [{}, {"topn": 1}], ids=["answered", "refused"])
async def test_headers_are_carried_byte_for_byte_in_order(worker: Deployment, bad: dict[str, Any]) -> None:
    """With repeated names, null and empty values; the reserved prefix is the worker's own."""
    trace = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    mine = [("b", b"1"), ("a", b"\x01\xff\xfe"), ("b", b"2"), ("nothing", None), ("empty", b""), trace]
    request_id = f"headers {len(bad)}"
    forged = [("scorestream-id", b"forged"), ("scorestream-x", b"1")]
    await worker.publish(request(request_id, SCORE, **bad), headers=[*mine[:3], *forged, *mine[3:]], partition=1)
    record = await worker.results.first(lambda one: one.message["id"] == request_id, request_id)
    source = record.message["source"]
    assert record.headers == (
        *mine,
        ("scorestream-id", request_id.encode()),
        ("scorestream-status", record.message["status"].encode()),
        ("scorestream-schema", b"1"),
        ("scorestream-source-topic", source["topic"].encode()),
        ("scorestream-source-partition", b"1"),
        ("scorestream-source-offset", str(source["offset"]).encode()),
    )
