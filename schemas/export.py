"""`python -m schemas.export [--check]`: the contract as JSON Schema (draft 7) and AsyncAPI 3.0, from the models.

Draft 7, because AsyncAPI 3.0 obliges its tools to read that one. JSON Schema cannot say all that the worker checks: a
document that it accepts can still be refused (duplicate keys, sizes and depth of free-form fields, limits from the
worker's settings); what it refuses, the worker refuses. An integer is one in both, also as 1.0 or 1e3.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from schemas import dead_letter, headers
from schemas.request import REQUEST_MODELS, SCHEMA_VERSION, Document
from schemas.result import ScoreResult

Schema = dict[str, Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"
_FORMAT = "application/schema+json;version=draft-07"
_KAFKA_BINDING = "0.5.0"
_FOLDER = Path(__file__).parent

_TEXT = {"type": "string"}
_NUMBER = {"type": "string", "pattern": "^-?[0-9]+$"}
_SOURCE_HEADERS = {
    headers.SOURCE_TOPIC: _TEXT | {"description": "Topic of the request."},
    headers.SOURCE_PARTITION: _NUMBER | {"description": "Partition of the request."},
    headers.SOURCE_OFFSET: _NUMBER | {"description": "Offset of the request."},
}


_CACHE = (
    "Redis. The key of this name, redis.prefix and the id, holds the newest result of that id: the bytes of the "
    "results topic, with the request's ttl_seconds. Reading consumes nothing. After each write, also one that was "
    "refused, its status is published on the channel of this name: a hint, at most once. Subscribe, then GET, then "
    "wait. A write is refused, and what is there stays: where both are of one topic and partition, when what is there "
    "has the higher offset and a record timestamp that is equal or later; where they are of different ones, when what "
    "is there has the later record timestamp (of two equal ones, the last write stands); where both are of one record, "
    "when what is there is ok and the write is an error. A replay with --force is never refused."
)


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def request_schema() -> Schema:
    """Closed: unknown fields are refused. `null` is accepted wherever a field may be absent."""
    tasks = {model.__name__: _plain_schema(model) for model in REQUEST_MODELS.values()}
    names = [name for task in tasks.values() for name in task["properties"]]
    for task in tasks.values():
        _accept_nulls(task)
        for name in names:
            task["properties"].setdefault(name, {"type": "null", "description": "Belongs to another task."})
        task["not"] = {
            "description": "One deadline, not two.",
            "required": ["deadline_unix_ms", "timeout_ms"],
            "properties": {"deadline_unix_ms": {"type": "integer"}, "timeout_ms": {"type": "integer"}},
        }
    document = _plain_schema(Document)
    return {
        "$schema": _DRAFT,
        "title": f"scorestream request, version {SCHEMA_VERSION}",
        "type": "object",
        "required": ["id", "task"],
        "oneOf": [{"$ref": f"#/definitions/{name}"} for name in tasks],
        "definitions": {"Document": document, **tasks},
    }


def result_schema() -> Schema:
    """Open: readers ignore fields that they do not know."""
    schema = ScoreResult.model_json_schema(ref_template="#/definitions/{model}", schema_generator=_Untitled)
    definitions = schema.pop("$defs")
    title = f"scorestream result, version {SCHEMA_VERSION}"
    return {"$schema": _DRAFT, **schema, "title": title, "definitions": definitions}


def result_headers_schema() -> Schema:
    """Headers of a result, values as text."""
    own = {
        headers.ID: _TEXT | {"description": "The request's id."},
        headers.STATUS: _TEXT | {"description": "`ok` or `error`."},
        headers.SCHEMA: _NUMBER | {"description": "Version of this contract."},
        **_SOURCE_HEADERS,
    }
    description = "The request's headers, except those that begin with scorestream-, and these."
    return {"type": "object", "description": description, "properties": own, "required": list(own)}


def dead_letter_headers_schema() -> Schema:
    """Headers of a dead letter, values as text."""
    always = {
        dead_letter.ERROR_CODE: _TEXT | {"description": "Why there is no score."},
        dead_letter.ERROR_MESSAGE: _TEXT | {"description": "The same in words; never repeats a value of the request."},
        **_SOURCE_HEADERS,
        dead_letter.SOURCE_TIMESTAMP: _NUMBER | {"description": "Kafka timestamp of the request, Unix milliseconds."},
        dead_letter.GROUP: _TEXT | {"description": "Consumer group of the worker."},
        dead_letter.ATTEMPTS: _NUMBER | {"description": "How often the request was tried."},
        dead_letter.WORKER_VERSION: _TEXT | {"description": "Version of the worker."},
    }
    sometimes = {
        headers.ID: _TEXT | {"description": "The request's id, if it could be read."},
        dead_letter.NULL_VALUE: {"const": "1", "description": "The original had neither key nor value."},
        dead_letter.VALUE_SHA256: {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "A stub: the hash."},
        dead_letter.VALUE_BYTES: _NUMBER | {"description": "A stub: size of the original value."},
        dead_letter.VALUE_UNREAD: {"const": "1", "description": "A stub: the original's value was not read."},
    }
    return {
        "$schema": _DRAFT,
        "title": f"scorestream dead letter headers, version {SCHEMA_VERSION}",
        "description": "Key, value and headers of the original, untouched, and then these, beginning with "
        "scorestream-error-code: whatever stands before the last header of that name is the original's. Bytes of a "
        "header's name that are not UTF-8 are escaped as \\xff.",
        "type": "object",
        "properties": always | sometimes,
        "required": list(always),
    }


def asyncapi_document() -> Schema:
    """The worker's three topics, and the channels and keys of Redis."""
    request = _json_payload("json/request.schema.json")
    result = _json_payload("json/result.schema.json")
    carried = {
        "type": "object",
        "description": "Names are UTF-8. At most 16 KiB in all; carried to the result byte for byte.",
    }
    letter: Schema = {"description": "The original's value, whatever it was."}
    letter_headers = {"schemaFormat": _FORMAT, "schema": {"$ref": "json/dead_letter_headers.schema.json"}}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "scorestream",
            "version": f"{SCHEMA_VERSION}.0.0",
            "description": "Scoring requests in, ordered scores out. Results stand on the partition number of their "
            "request, in request order; readers keep the first result per source coordinates.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "requests": _channel("score.requests", "ScoringRequest", request, carried),
            "results": _channel("score.results", "ScoreResult", result, result_headers_schema()),
            "deadLetters": _channel("score.dead", "DeadLetter", letter, letter_headers),
            "cache": {
                "address": "score:{id}",
                "description": _CACHE,
                "parameters": {"id": {"description": "The request's id."}},
                "messages": {
                    "Status": {
                        "name": "Status",
                        "contentType": "text/plain",
                        "payload": {"type": "string", "enum": ["ok", "error"]},
                    }
                },
            },
        },
        "operations": {
            "score": {"action": "receive", "channel": {"$ref": "#/channels/requests"}},
            "answer": {"action": "send", "channel": {"$ref": "#/channels/results"}},
            "refuse": {"action": "send", "channel": {"$ref": "#/channels/deadLetters"}},
            "notify": {"action": "send", "channel": {"$ref": "#/channels/cache"}},
        },
    }


def documents() -> dict[Path, str]:
    """Path below `schemas/` -> text."""
    return {
        Path("json/request.schema.json"): _json_text(request_schema()),
        Path("json/result.schema.json"): _json_text(result_schema()),
        Path("json/dead_letter_headers.schema.json"): _json_text(dead_letter_headers_schema()),
        Path("asyncapi.yaml"): yaml.safe_dump(asyncapi_document(), sort_keys=False, width=110),
    }


def drifted_files(folder: Path = _FOLDER) -> list[Path]:
    """The files below `folder` that are not what the models say."""
    return [
        path
        for path, text in documents().items()
        if not (folder / path).is_file() or (folder / path).read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write the files, or with --check only tell which are stale (exit 1)."""
    parser = argparse.ArgumentParser(prog="python -m schemas.export", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    check = parser.parse_args().check
    drifted = drifted_files()
    for path in drifted:
        if not check:
            (_FOLDER / path).parent.mkdir(exist_ok=True)
            (_FOLDER / path).write_text(documents()[path], encoding="utf-8")
        outcome = "is stale: run python -m schemas.export" if check else "written"
        sys.stderr.write(f"schemas/{path} {outcome}\n")
    return 1 if check and drifted else 0


def _plain_schema(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(ref_template="#/definitions/{model}", schema_generator=_Untitled)
    schema.pop("$defs", None)
    return schema


def _accept_nulls(schema: Schema) -> None:
    for name, field in schema["properties"].items():
        null: Schema = {"type": "null"}
        if name in schema["required"] or null in field.get("anyOf", ()) or not field.keys() & {"type", "enum"}:
            continue
        described = {key: field.pop(key) for key in ("description", "default") if key in field}
        schema["properties"][name] = {"anyOf": [field, null], **described}


def _json_payload(path: str) -> Schema:
    return {"schemaFormat": _FORMAT, "schema": {"$ref": path}}


def _channel(topic: str, name: str, payload: Schema, message_headers: Schema) -> Schema:
    key = {"type": "string", "description": "Optional, opaque bytes: orders requests, carried to the result."}
    return {
        "address": topic,
        "bindings": {"kafka": {"topic": topic, "bindingVersion": _KAFKA_BINDING}},
        "messages": {
            name: {
                "name": name,
                "headers": message_headers,
                "payload": payload,
                "bindings": {"kafka": {"key": key, "bindingVersion": _KAFKA_BINDING}},
            }
        },
    }


def _json_text(schema: Schema) -> str:
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
