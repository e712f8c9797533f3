"""Every way to break the contract is answered with its code and the field's name; and what only looks like one is not.

All rows are published at once, by kcat, to one worker: none may cost another anything.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer

from tests.integration.contract.deployment import Deployment, deployed
from tests.integration.contract.outside import Record
from tests.integration.contract.refusals import LEAK, REFUSED, Refused
from tests.services.kafka import KafkaNode
from tests.services.redis import RedisNode

NO_DEAD_LETTER = {"expired"}
RETRYABLE = {"unsupported_version", "unsupported_task", "wrong_model", "internal", "expired"}
ERROR_BYTES = 4000

DOCUMENT = {"id": "ID", "task": "score", "query": "q", "document": "d"}
ACCEPTED: dict[str, dict[str, Any]] = {
    "version 1 said": DOCUMENT | {"schema": 1},
    "nulls for absent": DOCUMENT
    | dict.fromkeys(("schema", "model", "deadline_unix_ms", "timeout_ms", "priority", "truncate", "ttl_seconds"))
    | dict.fromkeys(("metadata", "instruction", "raw_scores", "top_n", "dimensions")),
    "a document with a null id": DOCUMENT | {"document": {"id": None, "text": "d"}},
    "a served name": DOCUMENT | {"model": "scripted"},
    "a deadline to come": DOCUMENT | {"deadline_unix_ms": 10**13},
    "the extremes": DOCUMENT | {"priority": -100, "ttl_seconds": 86_400, "timeout_ms": 2**62},
    "4096 bytes of metadata": DOCUMENT | {"metadata": {"m": "x" * (4096 - len('{"m":""}'))}},
    "metadata of 32 levels": DOCUMENT | {"metadata": {"m": json.loads("[" * 31 + "]" * 31)}},
    "integers with a fraction of zero": DOCUMENT
    | {"schema": 1.0, "priority": -5.0, "ttl_seconds": 6e2, "timeout_ms": 6e9},
    "1000 documents": DOCUMENT | {"task": "rerank", "document": None, "documents": ["d"] * 1000},
    "one text as input": {"id": "ID", "task": "classify", "input": "text"},
    "one object as input": {"id": "ID", "task": "classify", "input": {"id": "mine", "text": "text"}},
    "a list that mixes both": {"id": "ID", "task": "classify", "input": ["text", {"text": "text"}]},
}


@dataclass(frozen=True)
class Answers:
    """The deployment that got every row; `sent` are the bytes of each, by its name."""

    deployment: Deployment
    sent: dict[str, bytes]


@pytest_asyncio.fixture(scope="module")
async def answers(
    kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Answers]:
    sent = {row.name: row.value.replace(b'"ID"', json.dumps(row.name).encode()) for row in REFUSED}
    sent |= {name: json.dumps(body | {"id": name}).encode() for name, body in ACCEPTED.items()}
    assert len(sent) == len(set(sent.values())) == len(REFUSED) + len(ACCEPTED), "rows are told apart"
    # What is too large for a test of texts is not too large for Kafka.
    larger = {"max.message.bytes": "2000000"}
    configs = {"requests": larger, "dead": larger}
    async with deployed(kafka, redis, tmp_path_factory.mktemp("refusals"), configs=configs) as deployment:
        await deployment.publish(*sent.values())
        yield Answers(deployment, sent)


@pytest.mark.parametrize("row", [row for row in REFUSED if row.readable], ids=lambda row: row.name)
async def test_an_error_result_names_code_and_field(answers: Answers, row: Refused) -> None:
    """On the topic and in Redis, with a dead letter where the contract's table says so."""
    record = await answers.deployment.result(row.name)
    error = record.message["error"]
    assert (record.message["status"], error["code"]) == ("error", row.code), error
    assert row.says in error["message"]
    assert LEAK not in error["message"]
    assert error["retryable"] is (row.code in RETRYABLE)
    assert len(json.dumps(error, ensure_ascii=False).encode()) <= ERROR_BYTES
    assert (record.message["results"], record.message["failed"], record.message["truncated"]) == ([], [], [])
    await answers.deployment.holds(row.name, record.value)
    if row.code not in NO_DEAD_LETTER:
        letter = await answers.deployment.dead_letter(answers.sent[row.name])
        assert letter.header("scorestream-id") == row.name
        assert_says_the_same(letter, error)


@pytest.mark.parametrize("row", [row for row in REFUSED if not row.readable], ids=lambda row: row.name)
async def test_without_an_id_there_is_the_dead_letter_alone(answers: Answers, row: Refused) -> None:
    letter = await answers.deployment.dead_letter(row.value)
    assert letter.header("scorestream-error-code") == row.code
    said = letter.header("scorestream-error-message")
    assert said is not None
    assert row.says in said
    assert LEAK not in said
    assert letter.header("scorestream-id") is None


@pytest.mark.parametrize("name", ACCEPTED)
async def test_what_the_contract_allows_is_answered(answers: Answers, name: str) -> None:
    record = await answers.deployment.result(name)
    assert record.message["status"] == "ok", record.message.get("error")


async def test_every_row_is_answered_once_and_in_order(answers: Answers) -> None:
    """Results of one partition are in request order, refused requests in their place; so are dead letters."""
    named = [row.name for row in REFUSED if row.readable] + list(ACCEPTED)
    for name in named:
        await answers.deployment.result(name)
    results = answers.deployment.results.records[: len(named)]
    assert [record.message["id"] for record in results] == named
    dead = [row for row in REFUSED if row.code not in NO_DEAD_LETTER]
    await answers.deployment.dead_letter(answers.sent[dead[-1].name])
    letters = answers.deployment.dead_letters.records[: len(dead)]
    assert [letter.value for letter in letters] == [answers.sent[row.name] for row in dead]


async def test_metadata_comes_back_as_equal_json(answers: Answers) -> None:
    """On the topic and in Redis, also what no double holds; in an answer and in an error."""
    text = b'{"exact":12345678901234567.89,"small":1e-400,"zero":-0.0,"whole":[18446744073709551615,1.0]}'
    for name, more in (("exact numbers", b""), ("exact numbers, refused", b',"topn":1')):
        body = json.dumps(DOCUMENT | {"id": name}).encode()[:-1]
        await answers.deployment.publish(body + b',"metadata":' + text + more + b"}")
        record = await answers.deployment.result(name)
        assert record.value is not None
        assert b'"metadata":' + text in record.value
        await answers.deployment.holds(name, record.value)


async def test_a_timeout_from_a_timestamp_in_seconds_is_refused_for_good(answers: Answers) -> None:
    """By a producer that sets it itself; 0 and none (-1) likewise. Where nothing counts from it, it is no matter."""
    topic = answers.deployment.requests.name
    producer = AIOKafkaProducer(bootstrap_servers=answers.deployment.kafka.bootstrap_servers)
    await producer.start()
    try:
        for timestamp_ms in (1_764_435_600, 0, -1):
            for name, more in ((f"{timestamp_ms} waits", {"timeout_ms": 60_000}), (f"{timestamp_ms} does not", {})):
                value = json.dumps(DOCUMENT | {"id": name} | more).encode()
                await producer.send_and_wait(topic, value, partition=0, timestamp_ms=timestamp_ms)
    finally:
        await producer.stop()
    for timestamp_ms in (1_764_435_600, 0, -1):
        record = await answers.deployment.result(f"{timestamp_ms} waits")
        error = record.message["error"]
        assert (error["code"], error["retryable"]) == ("schema", False)
        assert "`timeout_ms` counts from the record's timestamp" in error["message"]
        assert record.message["source"]["timestamp_ms"] == timestamp_ms
        assert (await answers.deployment.result(f"{timestamp_ms} does not")).message["status"] == "ok"


async def test_headers_above_16_kib_are_refused(answers: Answers) -> None:
    value = json.dumps(DOCUMENT | {"id": "many headers"}).encode()
    await answers.deployment.publish(value, headers=[("h", b"x" * (16 * 1024))])
    error = (await answers.deployment.result("many headers")).message["error"]
    assert error["code"] == "schema"
    assert "headers" in error["message"]


def assert_says_the_same(letter: Record, error: dict[str, Any]) -> None:
    """The dead letter's headers and the error result's body."""
    assert letter.header("scorestream-error-code") == error["code"]
    assert letter.header("scorestream-error-message") == error["message"]
