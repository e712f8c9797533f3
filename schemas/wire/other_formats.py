"""What a value is that is not one JSON object in UTF-8, where its bytes say so for certain, and what to send."""

import base64
import re
from typing import Any

import jiter

_COMPRESSED = "send the JSON itself; Kafka's producers compress by themselves, see their `compression.type`"
_PLAIN = "send plain JSON in UTF-8"

_UNICODE_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_WIDE_CODECS = (
    ("utf-32-be", "UTF-32", 8, None),
    ("utf-32-le", "UTF-32", 8, None),
    ("utf-16-be", "UTF-16", 4, 4),
    ("utf-16-le", "UTF-16", 4, 4),
)
"""With the bytes of two characters, and how much must decode: four bytes may be a schema's id, the whole is not."""
_MAGIC = (
    (b"\x1f\x8b", "gzip", _COMPRESSED),
    (b"\x28\xb5\x2f\xfd", "zstd", _COMPRESSED),
    (b"\x04\x22\x4d\x18", "lz4", _COMPRESSED),
    (b"LZ4Block", "lz4", _COMPRESSED),
    (b"\x82SNAPPY\x00", "snappy", _COMPRESSED),
    (b"\xff\x06\x00\x00sNaPpY", "snappy", _COMPRESSED),
    *((b"BZh%d1AY&SY" % level, "bzip2", _COMPRESSED) for level in range(1, 10)),
    (b"\xfd7zXZ\x00", "xz", _COMPRESSED),
    (b"x\x01", "zlib", _COMPRESSED),
    (b"x\x9c", "zlib", _COMPRESSED),
    (b"x\xda", "zlib", _COMPRESSED),
    (b"PK\x03\x04", "a zip archive", _COMPRESSED),
    (b"Obj\x01", "an Avro file", _PLAIN),
    (b"\xc3\x01", "Avro with a fingerprint of its schema", _PLAIN),
    (b"\xac\xed\x00\x05", "a serialised Java object", _PLAIN),
    (b"\x00\x01\x00\x00\x00\xff\xff\xff\xff", "a serialised .NET object", _PLAIN),
    (b"\x04\x08{", "an object of Ruby's Marshal", _PLAIN),
    (b"\x03\x00", "framed as AWS Glue Schema Registry does", "send the JSON alone, without its header"),
    (b"\x03\x05", "framed as AWS Glue Schema Registry does", "send the JSON alone, without its header"),
    (b"PAR1", "Parquet", _PLAIN),
    (b"ARROW1\0\0", "Arrow", _PLAIN),
    (b"\xd9\xd9\xf7", "CBOR", _PLAIN),
    (b":)\n", "Smile", _PLAIN),
    (b"\xe0\x01\x00\xea", "Ion", _PLAIN),
    (b"\xc0\x7f", "EBCDIC", _PLAIN),
)
_FIRST_NAMES = ("id", "task", "schema", "model", "query", "document", "documents", "input", "metadata")
_PATTERNS = (
    (re.compile(rb"\x80[\x02-\x05].*\.", re.DOTALL), "a Python pickle"),
    (re.compile(rb"[\x81-\x8f][\xa1-\xbf][ -~].*", re.DOTALL), "MessagePack"),
    *(
        (re.compile(b"[\xa1-\xb7\xbf]%c%s.*" % (0x60 + len(name), name.encode()), re.DOTALL), "CBOR")
        for name in _FIRST_NAMES
    ),
)
_CONFLUENT = (
    "the value starts with byte 0x00, as the Confluent wire format of Schema Registry serialisers does: "
    "send the JSON alone, without magic byte and schema id"
)
_BINARY = f"binary, as Avro, Protobuf and what is compressed are: {_PLAIN}"
_SCHEMA_HEADERS = frozenset(
    (
        "__value_schema_id",
        *("apicurio.value.globalId", "apicurio.value.contentId", "apicurio.value.artifactId"),
    )
)
"""By which serialisers of Confluent and Apicurio say what schema a value has, where not within it."""

_TEXTS = (
    (r"\x1e\s*\{", "a JSON text sequence (RFC 7464): send a record for each object"),
    (r"<[A-Za-z?!]", f"XML or HTML: {_PLAIN}"),
    (r"\{\s*'", "a Python object as text, with single quotes: write it with json.dumps"),
    (r"b['\"]", "the text of Python's bytes, b'...': send the bytes themselves"),
    (r"\[object ", "the text of a JavaScript object: write it with JSON.stringify"),
    (r"\{\s*(?:\"[^\"]*\"|:\w+)\s*=>", "a Ruby object as text: write it with to_json"),
    (r"\{\w+=", "a Java Map as text: write it with a JSON library"),
    (r"map\[", "a Go map as text: write it with json.Marshal"),
    (r"a:\d+:\{", "PHP's serialize: write it with json_encode"),
    (r"data:\s*\{", "an event of an event stream: send what follows `data:` alone"),
    (r"\{\s*\w+\s*:", "JSON whose names have no quotes: write it with a JSON library"),
    (r"[\x00-\x1f]", _BINARY),
)
_GZIP = b"\x1f\x8b\x08"
_BASE64 = re.compile("[A-Za-z0-9+/]*")
_BASE64_STARTS = ("e", "W", "H4sI")  # of `{`, of `[`, of gzip
_URL_SAFE = str.maketrans("-_", "+/")
_JSON_BEGINNINGS = tuple('{[" \t\r\n')
_BSON_TYPES = range(1, 0x14)


def named_bytes(value: bytes) -> str | None:
    """A sentence about a value that is not UTF-8 text, or not quite; None where it may be."""
    if not value:
        return "the value is empty"
    if value.startswith(b"\xef\xbb\xbf"):
        return "the value starts with a byte order mark: send UTF-8 without it"
    encoding = _wide_unicode(value)
    if encoding:
        return f"the value is {encoding}: send UTF-8"
    name = _format(value)
    if name:
        return f"the value is {name}"
    return None if value[0] else _CONFLUENT


def not_utf8(value: bytes, at: int) -> str:
    """A sentence about bytes of which the one at `at` is not UTF-8, and that have no name."""
    text_like = value.lstrip()[:1] in (b"{", b"[", b'"')
    return f"the value is not UTF-8 at byte {at}: " + (
        "write the JSON in UTF-8, not in Latin-1 or another code page" if text_like else f"it is {_BINARY}"
    )


def named_text(text: str) -> str | None:
    """A sentence about text that is not JSON."""
    begun = text.lstrip(" \t\r\n")
    if not begun:
        return "the value is white space"
    if begun[0] == "{" and begun.rstrip(" \t\r\n")[-1] == "\0":
        return "the value ends with byte 0x00, as strings in C do: send the JSON without it"
    for pattern, name in _TEXTS:
        if re.match(pattern, begun):
            return f"the value is {name}"
    held = _base64_of(text)
    return f"the value is {held}" if held else None


def several_objects(read: str, rest: str) -> str | None:
    """A sentence about text that is one JSON value, `read`, and more behind it."""
    if read.lstrip()[:1] == "{" and rest.lstrip(" \t\r\n,\x1e")[:1] == "{":
        return "the value holds several JSON objects: send a record for each"
    return None


def named_json(tree: Any) -> str | None:
    """How JSON that is not an object holds one, and what to send: the end of a sentence."""
    if isinstance(tree, list):
        return "send a record for each request" if tree and isinstance(tree[0], dict) else None
    if not isinstance(tree, str):
        return None
    if isinstance(held_json(tree), dict | str):
        return "it holds JSON as text, encoded twice: send the object itself"
    held = _base64_of(tree)
    return f"it holds {held}" if held else None


def named_headers(names: set[str]) -> str | None:
    """What the names of a record's headers say of a value that is not JSON: the end of a sentence."""
    for name in sorted(names & _SCHEMA_HEADERS):
        return f"its header `{name}` is that of a schema registry's serialiser: {_PLAIN}"
    return None


def held_json(text: str | bytes) -> Any:
    """The JSON value that a text is, or None."""
    try:
        return jiter.from_json(text.encode() if isinstance(text, str) else text)
    except ValueError:  # what UnicodeEncodeError is, too
        return None


def _wide_unicode(value: bytes) -> str | None:
    """JSON begins with two characters of ASCII, so where the zeros stand says what it is (RFC 4627, section 3)."""
    for mark, name in _UNICODE_MARKS:
        if value.startswith(mark):
            return name
    for codec, name, first, checked in _WIDE_CODECS:
        begun = value[:first].decode(codec, "replace")
        if begun[:1] in _JSON_BEGINNINGS and "\t" <= begun[1:] <= "~" and _decodes(value[:checked], codec):
            return name
    return None


def _decodes(value: bytes, codec: str) -> bool:
    try:
        value.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _format(value: bytes) -> str | None:
    if value[4:] and int.from_bytes(value[:4], "little") == len(value) and value[4] in _BSON_TYPES:
        return f"BSON: {_PLAIN}"
    for first, name, remedy in _MAGIC:
        if value.startswith(first):
            return f"{name}: {remedy}"
    for pattern, name in _PATTERNS:
        if pattern.fullmatch(value):
            return f"{name}: {_PLAIN}"
    return None


def _base64_of(text: str) -> str | None:
    """What is certain of base64: that there is JSON in it, or gzip."""
    written = "".join(text.split()).translate(_URL_SAFE).rstrip("=")
    if not written.startswith(_BASE64_STARTS) or not _BASE64.fullmatch(written):
        return None
    held = base64.b64decode(written + "=" * (-len(written) % 4)) if len(written) % 4 != 1 else b""
    certain = held.startswith(_GZIP) or isinstance(held_json(held), dict | list)
    return "base64: send the JSON itself" if certain else None
