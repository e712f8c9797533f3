"""What a request may be wrapped in by what brought it to the topic: named, with what to configure.

An envelope's own `id` names an event, not the request: who waits for a result waits for the request's.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.request import REQUEST_MODELS
from schemas.wire.other_formats import held_json
from schemas.wire.strict_json import shown_name

_Tree = dict[str, Any]


class Wrapped(NamedTuple):
    """`says`: the envelope and the remedy. `request`: what is known of the request in it, its id above all."""

    says: str
    request: _Tree


class _Envelope(NamedTuple):
    """`marks`: fields that only this one has together. `inside`: where the request is."""

    name: str
    marks: frozenset[str]
    inside: str | None
    remedy: str


def _envelope(name: str, marks: str, inside: str | None, remedy: str) -> _Envelope:
    return _Envelope(name, frozenset(marks.split()), inside, remedy)


_PAYLOAD = "send the request itself as the record's value"
_UNWRAP_DEBEZIUM = "unwrap it with Debezium's transform ExtractNewRecordState"

_ENVELOPES = (
    _envelope("a structured CloudEvent", "specversion", "data", "use binary mode, in which the value is the data"),
    _envelope("a change event of Debezium", "op source after", "after", _UNWRAP_DEBEZIUM),
    _envelope("a change event of Debezium", "op source before", "after", _UNWRAP_DEBEZIUM),
    _envelope("a change event of GoldenGate", "op_type after", "after", _PAYLOAD),
    _envelope("a change event of Maxwell or Canal", "database table data", "data", _PAYLOAD),
    _envelope("a change event of MongoDB", "operationType fullDocument", "fullDocument", _PAYLOAD),
    _envelope("a change event of MongoDB", "operationType documentKey", None, _PAYLOAD),
    _envelope("a change event of DynamoDB", "eventName dynamodb", None, _PAYLOAD),
    _envelope("an event of EventBridge", "detail-type detail", "detail", "let its target get `$.detail` alone"),
    _envelope("a notification of SNS", "TopicArn Message", "Message", "switch raw message delivery on"),
    _envelope("a batch of an AWS event source", "Records", None, "send a record for each, its body alone"),
    _envelope("a push of Pub/Sub", "message subscription", None, "send what its `data` holds, decoded from base64"),
    _envelope("an event of Event Grid", "eventType dataVersion data", "data", _PAYLOAD),
    _envelope("a line of an OpenAI batch", "custom_id body", "body", "send its body, with `id` and `task`"),
    _envelope("a line of an Anthropic batch", "custom_id params", "params", "send its params, with `id` and `task`"),
    _envelope("a JSON-RPC call", "jsonrpc method", "params", "send its params, with `id` and `task`"),
    _envelope("a GraphQL query", "query variables", None, "send a request of this contract"),
    _envelope("a GraphQL query", "query operationName", None, "send a request of this contract"),
    _envelope("a call of a Celery task", "task args kwargs", "kwargs", _PAYLOAD),
    _envelope("a message of MassTransit", "messageType message", "message", "use its raw JSON serialiser"),
    _envelope("an event of Logstash or Beats", "@timestamp message", "message", "write its `message` alone"),
    _envelope("an HTTP event of AWS Lambda", "requestContext body", "body", "send its body alone"),
    _envelope("a call of Kafka's REST Proxy", "records", None, "POST it there; a record's value is the request"),
    _envelope("a hit of Elasticsearch", "_index _source", "_source", "send its `_source` alone"),
)
_CONNECT = frozenset(("schema", "payload"))


def unwrapped(tree: _Tree) -> Wrapped | None:
    """The envelope that an object without a known task is, if it is one."""
    if tree.keys() >= _CONNECT and not isinstance(tree["schema"], int):
        inside = _object(tree["payload"])
        debezium = next((envelope for envelope in _ENVELOPES[1:3] if envelope.marks <= inside.keys()), None)
        request = _object(inside.get("after")) if debezium else inside
        remedy = f"; {_UNWRAP_DEBEZIUM}" if debezium else ""
        says = f"the envelope of Kafka Connect's JsonConverter: set `value.converter.schemas.enable=false`{remedy}"
        return Wrapped(says, request)
    for envelope in _ENVELOPES:
        if envelope.marks <= tree.keys():
            return Wrapped(f"{envelope.name}: {envelope.remedy}", _object(tree.get(envelope.inside or "")))
    return _request_in_a_field(tree)


def _request_in_a_field(tree: _Tree) -> Wrapped | None:
    """An envelope that nobody else knows: its id is the request's, unless that has one."""
    for name, field in tree.items():
        inside = _object(field)
        if _is_task(inside.get("task")):
            says = f"an object with a request in {shown_name(name)}: {_PAYLOAD}"
            return Wrapped(says, {"id": tree.get("id")} | inside)
    return None


def _object(field: Any) -> _Tree:
    """The object that a field holds, as JSON or as its text; empty where there is none."""
    held = held_json(field) if isinstance(field, str) else field
    return held if isinstance(held, dict) else {}


def _is_task(value: Any, tasks: Sequence[str] = tuple(REQUEST_MODELS)) -> bool:
    return isinstance(value, str) and value in tasks
