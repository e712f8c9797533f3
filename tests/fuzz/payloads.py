"""Record values that try to break a worker: random bytes, JSON of the wrong shape, good requests with damage."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

MARKER = "zqxj7"
"""In every text that is made up here: nothing of a request may stand in a log line or in an error."""
_FIELDS = (
    *("schema", "id", "task", "model", "deadline_unix_ms", "timeout_ms", "priority", "truncate", "ttl_seconds"),
    *("metadata", "query", "documents", "document", "input", "top_n", "return_documents", "instruction"),
    *("max_tokens_per_doc", "raw_scores", "top_k", "dimensions", "normalize", "role", "encoding_format"),
    *("processor", "data", "text", "topn", "\ud83d", "x" * 100),
)
"""Their names may be repeated, errors say which field is wrong."""
_WORDS = (
    *(
        "paris",
        "[SEP]",
        "[CLS]",
        "<|im_end|>",
        "\u200b",
        "\U0001f600",
        "\ufffd",
        "e\u0301",
        ".",
        "\u6cd5\u56fd",
        "a" * 200,
    ),
    *(" ", "\n", "0xff", "\u202e", "\ufeff", "!", "'", '"', "{", "\\", "1", "\u0000"),
)
_WORSE_WORDS = (*_WORDS, "\ud83d", "data:image/png;base64,AAAA", "\x7f", "\udfff\ud800")
_TASKS = ("rerank", "score", "classify", "embed", "plugin")
_NUMBERS = (
    *(0, 1, -1, 2, 5, 1000, 10**12, 10**13, 2**31, 2**63, 2**64, 10**30),
    *(0.5, -0.0, 1.0, 2.0, 1e3, 1e308, 5e-324, float("nan")),
)
_WRITTEN_NUMBERS = ("12345678901234567.89", "1e-400", "-1e400", "1E5", "0.10", "-0", "0e99999999999999999999")
"""What Python's json does not write."""
_OTHER_NAMES = (
    "texts",
    "inputs",
    "text_1",
    "text_2",
    "top_k",
    "TASK",
    "Task",
    "topN",
    "content",
    "user",
    "return_text",
)
_OTHERS: tuple[Any, ...] = (None, True, False, float("inf"), "2", "rerank", "embed", "query", "float", "base64", [], {})


def text(random: Random) -> str:
    """A few words, some of them odd; a long one now and then."""
    choice = _WORDS if random.random() < 0.97 else _WORSE_WORDS
    words = [random.choice(choice) for _ in range(random.choice((0, 1, 2, 5, 20)))]
    words.insert(random.randint(0, len(words)), random.choice((MARKER, MARKER, MARKER, "")))
    return random.choice((" ", "")).join(words) * random.choice((1, 1, 1, 1, 40))


def tree(random: Random, depth: int = 0) -> Any:
    """Any JSON and some that is none."""
    kind = random.random()
    if depth < 4 and kind < 0.15:
        return [tree(random, depth + 1) for _ in range(random.randint(0, 4))]
    if depth < 4 and kind < 0.3:
        return {random.choice(_FIELDS): tree(random, depth + 1) for _ in range(random.randint(0, 4))}
    if kind < 0.32:
        return nested(random.choice((10, 63, 64, 65, 200, 900)))
    if kind < 0.6:
        return text(random)
    return random.choice(_NUMBERS if kind < 0.8 else _OTHERS)


def nested(levels: int) -> Any:
    """Arrays in arrays."""
    inner: Any = MARKER
    for _ in range(levels):
        inner = [inner]
    return inner


def document(random: Random) -> Any:
    """As the contract has it."""
    if random.random() < 0.5:
        return text(random)
    return {"text": text(random), "id": random.choice((MARKER, "d", None))}


def good(random: Random, tasks: Sequence[str]) -> dict[str, Any]:
    """A request that the contract allows, but for some texts; mostly for one of these tasks."""
    task = random.choice(tasks if random.random() < 0.9 else _TASKS)
    request: dict[str, Any] = {"id": f"{MARKER}-{random.randint(0, 9)}", "task": task}
    documents = [
        document(random) for _ in range(random.choice((1, 1, 2, 2, 6, 20) if random.random() < 0.98 else (21, 30)))
    ]
    if task in ("rerank", "score"):
        request["query"] = text(random)
    match task:
        case "rerank":
            optional = {"top_n": 2, "return_documents": True, "max_tokens_per_doc": 3, "instruction": text(random)}
            request |= {"documents": documents} | some(random, optional | {"raw_scores": True})
        case "score":
            request |= {"document": documents[0]} | some(random, {"raw_scores": True, "instruction": text(random)})
        case "classify":
            request |= {"input": documents} | some(random, {"top_k": 2, "raw_scores": True})
        case "embed":
            optional = {"dimensions": random.choice((1, 2, 3, 9)), "normalize": False, "role": "query"}
            request |= {"input": documents} | some(random, optional | {"encoding_format": "base64"})
        case _:
            request |= {"processor": MARKER, "data": tree(random)}
    shared = {"truncate": False, "priority": 3, "metadata": {MARKER: text(random)}, "ttl_seconds": 5, "timeout_ms": 9}
    return request | some(random, shared)


def some(random: Random, fields: dict[str, Any]) -> dict[str, Any]:
    """A few of them."""
    return {name: value for name, value in fields.items() if random.random() < 0.1}


def _as_made(random: Random, tasks: Sequence[str]) -> bytes:
    return _encoded(good(random, tasks))


def _one_field_replaced(random: Random, tasks: Sequence[str]) -> bytes:
    request = good(random, tasks)
    return _encoded(request | {random.choice((*request, *_FIELDS)): tree(random)})


def _one_field_missing(random: Random, tasks: Sequence[str]) -> bytes:
    request = good(random, tasks)
    del request[random.choice(list(request))]
    return _encoded(request)


def _damaged(random: Random, tasks: Sequence[str]) -> bytes:
    value = bytearray(_encoded(good(random, tasks)))
    for _ in range(random.choice((1, 1, 3))):
        at = random.randint(0, len(value))
        value[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
    return bytes(value)


def _cut(random: Random, tasks: Sequence[str]) -> bytes:
    value = _encoded(good(random, tasks))
    return value[: random.randint(0, len(value))]


def _key_twice(random: Random, _tasks: Sequence[str]) -> bytes:
    name = random.choice(_FIELDS)
    pair = f'"{name}":{json.dumps(tree(random))}'
    return f'{{"id":"a",{pair},"task":"embed","input":"{MARKER}",{pair}}}'.encode(errors="surrogatepass")


def _other_name(random: Random, tasks: Sequence[str]) -> bytes:
    """One field renamed, as other APIs and other languages do."""
    request = good(random, tasks)
    request[random.choice(_OTHER_NAMES)] = request.pop(random.choice(list(request)))
    return _encoded(request)


def _enveloped(random: Random, tasks: Sequence[str]) -> bytes:
    """A request within something else, as an object or as text; its own id is the envelope's, sometimes."""
    request = good(random, tasks)
    inside = request if random.random() < 0.7 else json.dumps(request)
    envelope = random.choice(
        (
            {"schema": random.choice((None, {}, 1, 2)), "payload": inside},
            {"schema": {}, "payload": {"op": "c", "source": {}, "before": None, "after": inside}},
            {"specversion": "1.0", "id": MARKER, "data": inside},
            {"op": "u", "source": MARKER, "after": inside},
            {"custom_id": MARKER, "body": inside},
            {"id": 5, "task": MARKER, "args": [inside], "kwargs": inside},
            {random.choice(_FIELDS): inside, random.choice(_FIELDS): tree(random)},
            [inside, inside],
        )
    )
    return _encoded(envelope)


def _too_deep(random: Random, tasks: Sequence[str]) -> bytes:
    """Deeper than any parser follows, closed or not, before or behind the rest."""
    levels = random.choice((65, 199, 201, 950, 1_100, 5_000))
    opening, closing = random.choice((("[", "]"), ('{"a":', "}"), ('[{"a":[],"b":', "}]")))
    inner = random.choice(("0", '"[{"', f'"{MARKER}"', "tru", '{"a":1,"a":2}', ""))
    deep = f'"{random.choice(_FIELDS)}":{opening * levels}{inner}{closing * (levels - random.choice((0, 0, 0, 1, -1)))}'
    rest = json.dumps(good(random, tasks))[1:-1]
    return f"{{{','.join(random.sample((deep, rest), 2))}}}".encode(errors="surrogatepass")


def _exact_numbers(random: Random, tasks: Sequence[str]) -> bytes:
    """Numbers as text, in metadata and in a field."""
    request = json.dumps(good(random, tasks))[:-1]
    metadata, field = random.choice(_WRITTEN_NUMBERS), random.choice(_WRITTEN_NUMBERS)
    value = f'{request},"metadata":{{"{MARKER}":[{metadata},1.5]}},"{random.choice(_FIELDS)}":{field}}}'
    return value.encode(errors="surrogatepass")


def _other_format(random: Random, _tasks: Sequence[str]) -> bytes:
    """What serialisers, compressors and other languages make of a request, and what only begins so."""
    request = {"id": MARKER, "task": "embed", "input": text(random)}
    written = json.dumps(request).encode()
    beginnings = (
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"Obj\x01",
        b"\xac\xed\x00\x05",
        b"\x82\xa2",
        b"\xa2\x62id",
        b"PAR1",
    )
    return random.choice(
        (
            gzip.compress(written),
            pickle.dumps(request),
            base64.b64encode(written),
            json.dumps(written.decode()).encode(),
            repr(request).encode(errors="surrogatepass"),
            written + b"\n" + written,
            random.choice(beginnings) + written,
            random.choice(beginnings)[: random.randint(1, 4)],
            random.randbytes(random.randint(1, 9)) + written,
        )
    )


def _any_tree(random: Random, _tasks: Sequence[str]) -> bytes:
    return _encoded(tree(random))


def _other_encoding(random: Random, tasks: Sequence[str]) -> bytes:
    written = json.dumps(good(random, tasks)).replace("\\ud83d ", "")
    wide = ("utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be", "utf-32-le")
    return written.encode(random.choice((*wide, "utf-8-sig", "utf-7")))


def _noise(random: Random, _tasks: Sequence[str]) -> bytes:
    return random.choice((b"", b"\x00\x00\x00\x00\x01", b"\xff\xfe", b"{" * 50)) + random.randbytes(
        random.randint(0, 99)
    )


_KINDS: Sequence[Callable[[Random, Sequence[str]], bytes]] = (
    *(_as_made,) * 12,
    *(_one_field_replaced,) * 4,
    _one_field_missing,
    *(_damaged, _cut, _key_twice, _any_tree, _other_encoding, _noise),
    *(_other_name, _enveloped, _too_deep, _exact_numbers, _other_format),
)


def payload(random: Random, tasks: Sequence[str]) -> bytes | None:
    """One value for a worker with these tasks; now and then a tombstone."""
    return None if random.random() < 0.005 else random.choice(_KINDS)(random, tasks)


def headers(random: Random) -> tuple[tuple[str, bytes | None], ...]:
    """Few, odd ones, and sometimes more than the contract takes."""
    if random.random() < 0.9:
        return ()
    names = (MARKER, "traceparent", "scorestream-id", "scorestream-replay-of", "")
    size = random.choice((0, 5, 20, 20_000))
    return tuple((random.choice(names), random.choice((None, random.randbytes(size)))) for _ in range(3))


def _encoded(value: Any) -> bytes:
    """With lone surrogates as escapes or as bytes that are not UTF-8, as it comes."""
    written = json.dumps(value, ensure_ascii=len(str(value)) % 2 == 0)
    return written.encode(errors="surrogatepass")
