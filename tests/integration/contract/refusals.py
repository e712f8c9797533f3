"""Requests that break the contract: one row each, with the code that answers it and words of the message.

`ID` in a value stands for the row's own id. Where a value is at fault it contains LEAK, which no message may repeat.
"""

import base64
import gzip
import json
from dataclasses import dataclass
from typing import Any

LEAK = "confidential"
SCORE = {"task": "score", "query": LEAK, "document": LEAK}
RERANK = {"task": "rerank", "query": LEAK, "documents": [LEAK, "two"]}
CLASSIFY = {"task": "classify", "input": LEAK}
EMBED = {"task": "embed", "input": LEAK}
PLUGIN = {"task": "plugin", "processor": LEAK, "data": {}}


@dataclass(frozen=True)
class Refused:
    """`says`: words of the message, the field's name above all. `readable`: the id can be read."""

    name: str
    value: bytes
    code: str
    says: str
    readable: bool = True


def row(name: str, base: dict[str, Any], code: str, says: str, **fields: Any) -> Refused:
    """`base` with these fields; a field given as ... is left out."""
    body = {key: value for key, value in ({"id": "ID"} | base | fields).items() if value is not ...}
    return Refused(name, json.dumps(body).encode(), code, says)


def raw(name: str, value: str | bytes, code: str, says: str) -> Refused:
    """A value as it stands; its id can be read if `ID` occurs in it."""
    data = value.encode() if isinstance(value, str) else value
    return Refused(name, data, code, says, readable=b'"ID"' in data)


def free(name: str, metadata: str, says: str) -> Refused:
    """A score request with this text as `metadata`."""
    return raw(name, f'{{"id":"ID","task":"score","query":"q","document":"d","metadata":{metadata}}}', "schema", says)


def nested(levels: int) -> str:
    """So many arrays, one in the other."""
    return "[" * levels + "]" * levels


NO_JSON = [
    raw("text", LEAK, "malformed", "JSON"),
    raw("an array", f'["{LEAK}"]', "malformed", "array"),
    raw("a string", f'"{LEAK}"', "malformed", "string"),
    raw("a number", "17", "malformed", "number"),
    raw("null as text", "null", "malformed", "null"),
    raw("two objects", "{}{}", "malformed", "JSON"),
    raw("cut off", '{"id":"x","task":"sc', "malformed", "JSON"),
    raw("single quotes", "{'id':'x'}", "malformed", "single quotes: write it with json.dumps"),
    raw("not UTF-8", b'{"id":"\xff"}', "malformed", "UTF-8"),
    raw("UTF-16", '{"id":"x"}'.encode("utf-16"), "malformed", "UTF-16"),
    raw("a byte order mark", b'\xef\xbb\xbf{"id":"x"}', "malformed", "byte order mark"),
    raw("Confluent's wire format", b'\x00\x00\x00\x00\x01{"id":"x"}', "malformed", "Confluent"),
]

TEXT = '{"id":"x","task":"score"}'
OTHER_FORMATS = [
    raw("UTF-16, big end first, no mark", TEXT.encode("utf-16-be"), "malformed", "is UTF-16: send UTF-8"),
    raw("UTF-32, big end first, no mark", TEXT.encode("utf-32-be"), "malformed", "is UTF-32: send UTF-8"),
    raw("Confluent's wire format, Avro", b"\x00\x00\x00\x00\x7b\x06r-1\x0crerank", "malformed", "Confluent"),
    raw("gzip", gzip.compress(TEXT.encode()), "malformed", "is gzip"),
    raw("zstd", b"\x28\xb5\x2f\xfd\x24\x05", "malformed", "is zstd"),
    raw("an Avro file", b"Obj\x01\x04\x16avro.schema", "malformed", "is an Avro file"),
    raw("a Java object", b"\xac\xed\x00\x05sr\x00", "malformed", "Java"),
    raw("MessagePack", b"\x82\xa2id\xa3r-1\xa4task\xa5score", "malformed", "MessagePack"),
    raw("JSON in a text", json.dumps(TEXT), "malformed", "encoded twice"),
    raw("base64", base64.b64encode(TEXT.encode()), "malformed", "base64"),
    raw("requests in an array", f"[{TEXT}]", "malformed", "a record for each request"),
]

VERSION = [
    raw(
        "a later version, whatever else it says", '{"schema":2,"id":"ID","future":1}', "unsupported_version", "`schema`"
    ),
    row("version as text", SCORE, "schema", "`schema`", schema=LEAK),
    row("version as boolean", SCORE, "schema", "`schema`", schema=True),
    row("version 0", SCORE, "schema", "`schema`", schema=0),
    row("version 1.5", SCORE, "schema", "`schema`", schema=1.5),
    row("version 2.0", SCORE, "unsupported_version", "`schema`", schema=2.0),
]

IDENTITY = [
    raw("no id", '{"task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id null", '{"id":null,"task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id empty", '{"id":"","task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id a number", '{"id":5,"task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id of 257", f'{{"id":"{"x" * 257}","task":"score","query":"q","document":"d"}}', "schema", "`id`"),
    raw("id with a control", r'{"id":"a\u0007","task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id with C1", r'{"id":"a\u0085","task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id half a pair", r'{"id":"\ud800","task":"score","query":"q","document":"d"}', "schema", "`id`"),
    raw("id twice", '{"id":"a","id":"b","task":"score","query":"q","document":"d"}', "schema", "`id`"),
]

SHARED = [
    row("no task", SCORE, "schema", "`task`", task=...),
    row("unknown task", SCORE, "schema", "`task`", task=LEAK),
    row("task a list", SCORE, "schema", "`task`", task=[LEAK]),
    row("unknown field", SCORE, "schema", "`topn`", topn=1),
    raw("a key twice", '{"id":"ID","task":"score","query":"q","query":"r","document":"d"}', "schema", "`query`"),
    row("model of another", SCORE, "wrong_model", "`model`", model=LEAK),
    row("model a number", SCORE, "schema", "`model`", model=1),
    row("deadline in seconds", SCORE, "schema", "milliseconds?", deadline_unix_ms=1_764_430_000),
    row("deadline in microseconds", SCORE, "schema", "`deadline_unix_ms`", deadline_unix_ms=1_764_430_000_000_000),
    row("deadline as text", SCORE, "schema", "`deadline_unix_ms`", deadline_unix_ms=LEAK),
    row("two deadlines", SCORE, "schema", "`timeout_ms`", deadline_unix_ms=1_764_430_000_000, timeout_ms=5),
    row("timeout 0", SCORE, "schema", "`timeout_ms`", timeout_ms=0),
    row("deadline passed", SCORE, "expired", "deadline", deadline_unix_ms=10**12),
    row("timeout passed", SCORE, "expired", "deadline", timeout_ms=1),
    row("priority 101", SCORE, "schema", "`priority`", priority=101),
    row("priority -101", SCORE, "schema", "`priority`", priority=-101),
    row("priority as text", SCORE, "schema", "`priority`", priority=LEAK),
    row("priority 1.5", SCORE, "schema", "`priority`", priority=1.5),
    row("truncate as text", SCORE, "schema", "`truncate`", truncate=LEAK),
    row("truncate 1", SCORE, "schema", "`truncate`", truncate=1),
    row("ttl 0", SCORE, "schema", "`ttl_seconds`", ttl_seconds=0),
    row("ttl above the most", SCORE, "schema", "86400", ttl_seconds=86_401),
    row("ttl beyond 64 bits", SCORE, "schema", "`ttl_seconds`", ttl_seconds=2**70),
    row("ttl true", SCORE, "schema", "`ttl_seconds`", ttl_seconds=True),
]

INSIDE = f'{{"id":"ID","task":"score","query":"{LEAK}","document":"d","metadata":{{"m":1.5}}}}'
ENVELOPES = [
    raw("in Kafka Connect's envelope", f'{{"schema":{{}},"payload":{INSIDE}}}', "schema", "schemas.enable=false"),
    raw(
        "in Debezium's envelope",
        f'{{"before":null,"after":{INSIDE},"source":{{"table":"{LEAK}"}},"op":"c"}}',
        "schema",
        "ExtractNewRecordState",
    ),
    raw("in a CloudEvent", f'{{"specversion":"1.0","id":"event","data":{INSIDE}}}', "schema", "binary mode"),
    raw("a CloudEvent alone", f'{{"specversion":"1.0","id":"{LEAK}","data":1}}', "schema", "binary mode"),
    raw("a line of an OpenAI batch", f'{{"custom_id":"{LEAK}","body":{{"input":1}}}}', "schema", "OpenAI batch"),
]
OTHER_WORDS = [
    row("the task in capitals", SCORE, "schema", "`TASK` (write `task`)", task=..., TASK="score"),
    row("the task in Pascal's case", SCORE, "schema", "`Task` (write `task`)", task=..., Task="score"),
    row("a task in capitals", SCORE, "schema", "(write `score`)", task="SCORE"),
    row("TEI's texts", RERANK, "schema", "`texts` (write `documents`)", documents=..., texts=[LEAK]),
    row("TEI's inputs with its task", CLASSIFY, "schema", "`inputs` (write `input`)", input=..., inputs=[LEAK]),
    row("vLLM's texts", SCORE, "schema", "`text_1` (write `query`)", query=..., text_1=LEAK),
    row("Voyage's top_k", RERANK, "schema", "(write `top_n`)", top_k=1),
]
DEPTH = [
    raw("2000 levels", f'{{"id":"ID","x":{nested(2_000)}}}', "schema", "`x` is nested deeper than 64 levels"),
    raw("100000 levels before the id", f'{{"x":{nested(100_000)},"id":"ID"}}', "schema", "deeper than 64 levels"),
    raw("2000 levels, not closed", f'{{"id":"x","x":{"[" * 2_000}', "malformed", "not closed"),
]

METADATA = [
    row("metadata a list", SCORE, "schema", "`metadata`", metadata=[LEAK]),
    row("metadata too large", SCORE, "schema", "`metadata`", metadata={"m": LEAK * 350}),
    free("metadata too deep", f'{{"a":{nested(32)}}}', "`metadata`"),
    free("NaN", '{"a":NaN}', "`metadata`"),
    free("Infinity", '{"a":-Infinity}', "`metadata`"),
    free("infinite by its exponent", '{"a":1e999}', "`metadata`"),
    free("integer beyond 64 bits", '{"a":18446744073709551616}', "64 bits"),
    free("half a surrogate pair", r'{"a":"\udc00"}', "surrogate"),
    free("a key twice inside", '{"a":1,"a":2}', "`a`"),
]

BY_TASK = [
    row("no query", SCORE, "schema", "`query`", query=...),
    row("query a number", SCORE, "schema", "`query`", query=5),
    row("no document", SCORE, "schema", "`document`", document=...),
    row("document a list", SCORE, "schema", "`document`", document=[LEAK]),
    row("documents of score", SCORE, "schema", "`documents`", documents=[LEAK]),
    row("instruction for a model without one", SCORE, "schema", "`instruction`", instruction=LEAK),
    row("raw_scores as text", SCORE, "schema", "`raw_scores`", raw_scores=LEAK),
    row("no documents", RERANK, "schema", "`documents`", documents=...),
    row("empty documents", RERANK, "schema", "`documents`", documents=[]),
    row("documents a string", RERANK, "schema", "`documents`", documents=LEAK),
    row("a document a number", RERANK, "schema", "`documents[1]", documents=["a", 1]),
    row("a document null", RERANK, "schema", "`documents[0]", documents=[None]),
    row("a document without text", RERANK, "schema", "`documents[0].text`", documents=[{"id": "x"}]),
    row("a document with more", RERANK, "schema", "`url`", documents=[{"text": LEAK, "url": LEAK}]),
    row("a document's id empty", RERANK, "schema", "`documents[0].id`", documents=[{"text": LEAK, "id": ""}]),
    row("a document's id of 257", RERANK, "schema", "`documents[0].id`", documents=[{"text": "d", "id": "x" * 257}]),
    row("a document's id a number", RERANK, "schema", "`documents[0].id`", documents=[{"text": "d", "id": 7}]),
    row("top_n 0", RERANK, "schema", "`top_n`", top_n=0),
    row("top_n as text", RERANK, "schema", "`top_n`", top_n="2"),
    row("top_n true", RERANK, "schema", "`top_n`", top_n=True),
    row("return_documents 1", RERANK, "schema", "`return_documents`", return_documents=1),
    row("max_tokens_per_doc 0", RERANK, "schema", "`max_tokens_per_doc`", max_tokens_per_doc=0),
    row("top_k of rerank", RERANK, "schema", "`top_k`", top_k=1),
    row("1001 documents", RERANK, "too_many_items", "`documents`", documents=["d"] * 1001),
    row("no input", CLASSIFY, "schema", "`input`", input=...),
    row("empty input list", CLASSIFY, "schema", "`input`", input=[]),
    row("1001 inputs", CLASSIFY, "too_many_items", "`input`", input=["d"] * 1001),
    row("top_k 0", CLASSIFY, "schema", "`top_k`", top_k=0),
    row("dimensions of classify", CLASSIFY, "schema", "`dimensions`", dimensions=5),
    row("embed by a cross-encoder", EMBED, "unsupported_task", "`embed`"),
    row("dimensions 0", EMBED, "schema", "`dimensions`", dimensions=0),
    row("normalize as text", EMBED, "schema", "`normalize`", normalize=LEAK),
    row("unknown role", EMBED, "schema", "`role`", role=LEAK),
    row("unknown encoding", EMBED, "schema", "`encoding_format`", encoding_format=LEAK),
    row("a processor that is not installed", PLUGIN, "unsupported_task", "`plugin`"),
    row("no processor", PLUGIN, "schema", "`processor`", processor=...),
    raw("data too deep", f'{{"id":"ID","task":"plugin","processor":"p","data":{nested(64)}}}', "schema", "`data`"),
    raw("data NaN", '{"id":"ID","task":"plugin","processor":"p","data":NaN}', "schema", "`data`"),
]

TEXTS = [
    row("an empty query", RERANK, "empty_input", "`query`", query=""),
    row("an empty document", SCORE, "empty_input", "content", document=" \n\t"),
    row("nothing but empty documents", RERANK, "empty_input", "content", documents=["", {"text": " "}]),
    row("too long and not to be cut", SCORE, "too_long", "`truncate`", document="word " * 600, truncate=False),
    row("a query that leaves no room", SCORE, "too_long", "`query`", query="word " * 600),
    row("too many bytes", SCORE, "too_long", "1000000 bytes", document="x" * 1_000_001),
    row("an image", SCORE, "schema", "`document`", document="data:image/png;base64,AAAA"),
    row("where an image is", SCORE, "schema", "`document` is a URL", document="https://example.org/cat.png"),
    row("refused by the engine", SCORE, "engine_rejected", "refuses", document="!reject"),
    row("not a number", SCORE, "non_finite", "finite", document="!nan"),
]

REFUSED = [
    *(*NO_JSON, *OTHER_FORMATS, *VERSION, *IDENTITY, *SHARED, *ENVELOPES, *OTHER_WORDS, *DEPTH, *METADATA),
    *(*BY_TASK, *TEXTS),
]
