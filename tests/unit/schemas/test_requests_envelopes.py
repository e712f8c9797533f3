"""A request inside of something else: the envelope is named with what to configure, and who waits gets the answer."""

import json
from typing import Any

import pytest

from schemas.errors import ErrorCode
from schemas.request import REQUEST_MODELS

from .request_bytes import as_bytes, refused

LEAK = "zqxj7"
INSIDE = {"id": "r-1", "task": "rerank", "query": LEAK, "documents": [LEAK], "metadata": {"m": LEAK}}
ROW = {"id": 7, "text": LEAK}
CHANGE = {"before": None, "after": INSIDE, "source": {"table": LEAK}, "op": "c", "ts_ms": 1}
EVENT = {"specversion": "1.0", "id": "event-1", "source": LEAK, "type": LEAK}

ENVELOPES: dict[str, tuple[dict[str, Any], str]] = {
    "Kafka Connect": ({"schema": {"type": "struct"}, "payload": INSIDE}, "value.converter.schemas.enable=false"),
    "Kafka Connect without a schema": ({"schema": None, "payload": INSIDE}, "value.converter.schemas.enable=false"),
    "Kafka Connect with text": (
        {"schema": {"type": "string"}, "payload": json.dumps(INSIDE)},
        "value.converter.schemas.enable=false",
    ),
    "Debezium": (CHANGE, "ExtractNewRecordState"),
    "Debezium with schemas": ({"schema": {}, "payload": CHANGE}, "ExtractNewRecordState"),
    "CloudEvents": (EVENT | {"data": INSIDE}, "binary mode"),
    "CloudEvents with text": (EVENT | {"data": json.dumps(INSIDE)}, "binary mode"),
    "EventBridge": ({"version": "0", "id": "e-1", "detail-type": LEAK, "detail": INSIDE}, "$.detail"),
    "SNS": ({"Type": "Notification", "TopicArn": LEAK, "Message": json.dumps(INSIDE)}, "raw message delivery"),
    "JSON-RPC": ({"jsonrpc": "2.0", "id": "1", "method": "rerank", "params": INSIDE}, "JSON-RPC"),
    "Maxwell": ({"database": LEAK, "table": LEAK, "type": "insert", "data": INSIDE}, "Maxwell"),
    "GoldenGate": ({"table": LEAK, "op_type": "I", "after": INSIDE}, "GoldenGate"),
    "MongoDB": ({"operationType": "insert", "fullDocument": INSIDE}, "MongoDB"),
    "Elasticsearch": ({"_index": LEAK, "_id": LEAK, "_source": INSIDE}, "Elasticsearch"),
    "Logstash": ({"@timestamp": LEAK, "@version": "1", "message": json.dumps(INSIDE)}, "Logstash"),
    "MassTransit": ({"messageId": LEAK, "messageType": [LEAK], "message": INSIDE}, "MassTransit"),
    "AWS Lambda": ({"requestContext": {}, "body": json.dumps(INSIDE)}, "AWS Lambda"),
    "Event Grid": ({"id": "e-1", "eventType": LEAK, "dataVersion": "1", "data": INSIDE}, "Event Grid"),
    "one that nobody knows": ({"sent_at": LEAK, "body": INSIDE}, "in `body`"),
    "one that nobody knows, with text": ({"value": json.dumps(INSIDE)}, "in `value`"),
}
WITHOUT_A_REQUEST: dict[str, tuple[dict[str, Any], str]] = {
    "Debezium, deleted": ({"before": INSIDE, "after": None, "source": {}, "op": "d"}, "ExtractNewRecordState"),
    "CloudEvents": (EVENT | {"data": {"text": LEAK}}, "binary mode"),
    "CloudEvents in base64": (EVENT | {"data_base64": "e30="}, "binary mode"),
    "CloudEvents without data": (EVENT, "binary mode"),
    "EventBridge": ({"id": "e-1", "detail-type": LEAK, "detail": ROW}, "$.detail"),
    "OpenAI": ({"custom_id": "c-1", "method": "POST", "url": "/v1/embeddings", "body": {"input": LEAK}}, "OpenAI"),
    "Anthropic": ({"custom_id": "c-1", "params": {"model": LEAK}}, "Anthropic"),
    "JSON-RPC": ({"jsonrpc": "2.0", "id": "1", "method": LEAK, "params": [LEAK]}, "JSON-RPC"),
    "GraphQL": ({"query": LEAK, "variables": {}}, "GraphQL"),
    "Celery": ({"id": "c-1", "task": "app.rerank", "args": [], "kwargs": {}}, "Celery"),
    "Pub/Sub": ({"message": {"data": "e30=", "messageId": "1"}, "subscription": LEAK}, "Pub/Sub"),
    "SQS": ({"Records": [{"body": LEAK}]}, "AWS event source"),
    "REST Proxy": ({"records": [{"value": INSIDE}]}, "REST Proxy"),
    "DynamoDB": ({"eventID": "1", "eventName": "INSERT", "dynamodb": {}}, "DynamoDB"),
}


@pytest.mark.parametrize(("envelope", "says"), ENVELOPES.values(), ids=ENVELOPES)
def test_an_envelope_is_named_and_the_answer_stands_under_the_id_of_the_request_in_it(envelope, says):
    error = refused(json.dumps(envelope).encode())
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, "r-1", "rerank")
    assert error.message.startswith("`task` is missing")
    assert says in error.message
    assert LEAK not in error.message


@pytest.mark.parametrize(("envelope", "says"), WITHOUT_A_REQUEST.values(), ids=WITHOUT_A_REQUEST)
def test_the_id_of_an_event_is_not_the_id_of_a_request(envelope, says):
    error = refused(json.dumps(envelope).encode())
    assert (error.code, error.id, error.task) == (ErrorCode.SCHEMA, None, None)
    assert "`task`" in error.message
    assert says in error.message
    assert LEAK not in error.message


def test_an_unknown_envelope_may_hold_the_id_for_its_request():
    request = {name: field for name, field in INSIDE.items() if name != "id"}
    error = refused(json.dumps({"id": "r-2", "request": request}).encode())
    assert (error.id, error.task) == ("r-2", "rerank")


@pytest.mark.parametrize("fault", ['"\\ud800"', "[" * 3_000 + "]" * 3_000, '{"a":1,"a":2}'])
def test_a_fault_further_in_does_not_put_the_answer_under_the_event_s_id(fault):
    value = f'{{"specversion":"1.0","id":"event-1","data":{{"id":"r-1","task":"embed","input":{fault}}}}}'
    assert refused(value.encode()).id == "r-1"


def test_a_later_version_in_an_envelope_is_answered_to_the_request():
    error = refused(json.dumps(EVENT | {"schema": 2, "data": INSIDE}).encode())
    assert (error.code, error.id) == (ErrorCode.UNSUPPORTED_VERSION, "r-1")


@pytest.mark.parametrize("name", ["data", "payload", "specversion", "message"])
def test_a_request_with_a_field_of_an_envelope_is_a_request(name):
    error = refused(as_bytes("rerank", **{name: INSIDE}))
    assert (error.id, error.task) == ("a", "rerank")
    assert f"`{name}`" in error.message


def test_a_missing_task_is_called_missing():
    error = refused(b'{"id":"a","query":"q","documents":["d"],"foo":1,"bar":2}')
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert error.message.startswith("`task` is missing")
    assert "unknown fields `bar`, `foo`" in error.message


@pytest.mark.parametrize(
    ("spell", "written"),
    [(str.upper, "TASK"), (str.capitalize, "Task"), (lambda name: name.replace("_", "").capitalize(), "Task")],
)
def test_the_wrong_case_of_a_name_is_called_that(spell, written):
    fields = {"task": "rerank", "query": LEAK, "documents": [LEAK], "return_documents": True, "top_n": 1, "priority": 1}
    error = refused(json.dumps({"id": "a"} | {spell(name): field for name, field in fields.items()}).encode())
    assert (error.code, error.id) == (ErrorCode.SCHEMA, "a")
    assert error.message.startswith("`task` is missing")
    assert f"`{written}` (write `task`)" in error.message
    assert "(write `query`)" in error.message
    assert LEAK not in error.message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Rerank", "rerank"),
        ("EMBED", "embed"),
        ("embeddings", "embed"),
        ("feature-extraction", "embed"),
        ("retrieval.query", "embed"),
        ("text-classification", "classify"),
        ("reranking", "rerank"),
        ("sentence-similarity", "score"),
        (" score ", "score"),
    ],
)
def test_another_name_of_a_task_is_met_with_the_contract_s(given, meant):
    message = refused(as_bytes(task=given)).message
    assert message == f"`task` must be one of {', '.join(REQUEST_MODELS)} (write `{meant}`)"
