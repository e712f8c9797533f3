"""Dead letters keep the original untouched; what is too large for its topic, answer or dead letter, is made to fit."""

import hashlib
import json
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.contract.deployment import Deployment, deployed
from tests.integration.contract.outside import Record
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode

TOPIC_BYTES = 60_000
"""max.message.bytes of the results and the dead-letter topic; requests may have 1 MB."""
SCORE = {"task": "score", "query": "q", "document": "d"}
HEADERS = [("b", b"1"), ("a", b"\x01\xff"), ("b", b"2"), ("nothing", None), ("scorestream-id", b"forged")]
METADATA = {"m": "m" * 4000}
CALLERS_HEADERS = [("h", b"h" * 14_000)]


@pytest_asyncio.fixture(scope="module")
async def worker(
    kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    small = {"max.message.bytes": str(TOPIC_BYTES)}
    settings = {"limits.chunk_bytes": TOPIC_BYTES - 10_000}
    configs = {"results": small, "dead": small}
    async with deployed(kafka, redis, tmp_path_factory.mktemp("dead"), settings, configs) as deployment:
        yield deployment


def request(request_id: str, **fields: Any) -> bytes:
    return json.dumps({"id": request_id} | SCORE | fields).encode()


async def letter_of(worker: Deployment, sent: Record) -> Record:
    """The dead letter of this very record."""
    place = (sent.topic, str(sent.partition), str(sent.offset))

    def ours(one: Record) -> bool:
        return tuple(one.header(f"scorestream-source-{part}") for part in ("topic", "partition", "offset")) == place

    return await worker.dead_letters.first(ours, f"the dead letter of {place}")


async def sent_now(worker: Deployment, value: bytes | None, **how: Any) -> Record:
    """Publish one record; returns it as the request topic has it."""
    places = {(one.partition, one.offset) for one in worker.requests.records}
    await worker.publish(value, **how)
    return await worker.requests.first(lambda one: (one.partition, one.offset) not in places, "the request")


async def test_the_original_is_untouched_and_headers_say_why(worker: Deployment) -> None:
    sent = await sent_now(worker, request("dead", topn=1), key=b"\xffkey", headers=HEADERS, partition=3)
    letter = await letter_of(worker, sent)
    error = (await worker.results.first(lambda one: one.message["id"] == "dead", "the result")).message["error"]
    assert (letter.key, letter.value) == (sent.key, sent.value)
    assert letter.headers == (
        *HEADERS,
        ("scorestream-error-code", b"schema"),
        ("scorestream-error-message", error["message"].encode()),
        ("scorestream-id", b"dead"),
        ("scorestream-source-topic", sent.topic.encode()),
        ("scorestream-source-partition", b"3"),
        ("scorestream-source-offset", str(sent.offset).encode()),
        ("scorestream-source-timestamp", str(sent.timestamp_ms).encode()),
        ("scorestream-group", str(worker.settings["kafka.group_id"]).encode()),
        ("scorestream-attempts", b"1"),
        ("scorestream-worker-version", version("scorestream").encode()),
    )


@pytest.mark.parametrize("value", [b"", b"no json", b"\x00\x01\x02\xff"], ids=["empty", "text", "bytes"])
async def test_a_value_that_is_no_json_is_untouched(worker: Deployment, value: bytes) -> None:
    letter = await letter_of(worker, await sent_now(worker, value, key=b"k"))
    assert (letter.key, letter.value) == (b"k", value)
    assert letter.header("scorestream-error-code") == "malformed"
    assert letter.header("scorestream-id") is None
    assert letter.header("scorestream-null-value") is None


async def test_a_null_value_is_malformed(worker: Deployment) -> None:
    letter = await letter_of(worker, await sent_now(worker, None, key=b"k", headers=[("h", b"1")]))
    assert (letter.key, letter.value) == (b"k", None)
    assert letter.headers[0] == ("h", b"1")
    assert letter.header("scorestream-error-code") == "malformed"
    assert letter.header("scorestream-null-value") is None


async def test_a_null_key_and_value_become_an_empty_value_and_a_header(worker: Deployment) -> None:
    letter = await letter_of(worker, await sent_now(worker, None))
    assert (letter.key, letter.value) == (None, b"")
    assert letter.header("scorestream-error-code") == "malformed"
    assert letter.header("scorestream-null-value") == "1"


async def test_what_is_too_large_for_the_topic_becomes_a_stub(worker: Deployment) -> None:
    """With the original's coordinates and hash, by which it can be fetched and known."""
    sent = await sent_now(worker, request("stub", document="d" * TOPIC_BYTES, topn=1), key=b"k")
    letter = await letter_of(worker, sent)
    assert sent.value is not None
    assert (letter.key, letter.value) == (b"k", b"")
    assert letter.header("scorestream-value-sha256") == hashlib.sha256(sent.value).hexdigest()
    assert letter.header("scorestream-value-bytes") == str(len(sent.value))
    assert letter.header("scorestream-id") == "stub"


async def test_a_result_too_large_for_the_topic_is_an_error(worker: Deployment) -> None:
    """And its request a dead letter; the same without the texts is answered."""
    body = {"task": "rerank", "document": None, "documents": ["word " * 1000] * 15}
    await worker.publish(request("too large", **body, return_documents=True), request("it fits", **body))
    message = (await worker.result("too large")).message
    assert (message["status"], message["error"]["code"], message["error"]["retryable"]) == (
        "error",
        "result_too_large",
        False,
    )
    assert message["results"] == []
    await worker.dead_letters.first(lambda one: one.header("scorestream-id") == "too large", "the dead letter")
    assert (await worker.result("it fits")).message["status"] == "ok"


@pytest.mark.parametrize(
    ("key_bytes", "dropped"),
    [
        (1_000, None),
        (TOPIC_BYTES - 18_000, ["metadata"]),
        (TOPIC_BYTES - 8_000, ["metadata", "headers"]),
        (TOPIC_BYTES - 100, ["metadata", "headers", "key"]),
        (TOPIC_BYTES + 40_000, ["metadata", "headers", "key"]),
    ],
)
async def test_an_error_result_always_fits(worker: Deployment, key_bytes: int, dropped: list[str] | None) -> None:
    """What is left out for that is named, in the order in which it goes; the next request does not notice."""
    request_id, after = f"fit {key_bytes}", f"after {key_bytes}"
    key = b"k" * key_bytes
    await worker.publish(request(request_id, metadata=METADATA, topn=1), key=key, headers=CALLERS_HEADERS)
    await worker.publish(request(after))
    record = await worker.result(request_id)
    message = record.message
    assert (message["error"]["code"], message.get("dropped")) == ("schema", dropped)
    gone = dropped or []
    assert message.get("metadata") == (None if "metadata" in gone else METADATA)
    assert (CALLERS_HEADERS[0] in record.headers) is ("headers" not in gone)
    assert record.key == (None if "key" in gone else key)
    assert record.header("scorestream-source-offset") == str(message["source"]["offset"])
    await worker.holds(request_id, record.value)
    assert (await worker.result(after)).message["status"] == "ok"


async def test_many_small_headers_weigh_more_than_their_bytes(worker: Deployment) -> None:
    """Each costs lengths of its own, which the topic's limit counts."""
    headers = [("h", None)] * 5_000
    await worker.publish(request("small headers", topn=1), key=b"k" * (TOPIC_BYTES - 14_000), headers=headers)
    await worker.publish(request("after small headers"))
    assert (await worker.result("small headers")).message["dropped"] == ["headers"]
    assert (await worker.result("after small headers")).message["status"] == "ok"
