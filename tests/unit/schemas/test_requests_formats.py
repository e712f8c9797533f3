"""Values that are not one JSON object in UTF-8 are named, with what to send, wherever their bytes say what they are."""

import base64
import bz2
import gzip
import json
import lzma
import pickle
import zlib

import pytest

from schemas.errors import ErrorCode
from schemas.wire import named_headers

from .request_bytes import refused

REQUEST = {"id": "r-1", "task": "rerank", "query": "q", "documents": ["zqxj7"]}
TEXT = json.dumps(REQUEST)
JSON = TEXT.encode()
BASE64 = base64.b64encode(JSON).decode()


def bson() -> bytes:
    """One document with one text."""
    fields = b"\x02id\x00\x04\x00\x00\x00r-1\x00\x00"
    return (len(fields) + 4).to_bytes(4, "little") + fields


FORMATS = {
    "UTF-16, big end first": (TEXT.encode("utf-16-be"), "is UTF-16: send UTF-8"),
    "UTF-16, little end first": (TEXT.encode("utf-16-le"), "is UTF-16: send UTF-8"),
    "UTF-16 with a mark": (TEXT.encode("utf-16"), "is UTF-16: send UTF-8"),
    "UTF-16 with a mark, big end first": ("\ufeff".encode("utf-16-be") + TEXT.encode("utf-16-be"), "is UTF-16"),
    "UTF-16, indented": (json.dumps(REQUEST, indent=1).encode("utf-16-be"), "is UTF-16: send UTF-8"),
    "UTF-16 behind white space": (f"\n {TEXT}".encode("utf-16-be"), "is UTF-16: send UTF-8"),
    "UTF-16, cut off": (TEXT.encode("utf-16-be")[:-1], "is UTF-16: send UTF-8"),
    "UTF-16, an array": (f"[{TEXT}]".encode("utf-16-be"), "is UTF-16: send UTF-8"),
    "UTF-16, empty": ("{}".encode("utf-16-be"), "is UTF-16: send UTF-8"),
    "UTF-32, big end first": (TEXT.encode("utf-32-be"), "is UTF-32: send UTF-8"),
    "UTF-32, little end first": (TEXT.encode("utf-32-le"), "is UTF-32: send UTF-8"),
    "UTF-32 with a mark": (TEXT.encode("utf-32"), "is UTF-32: send UTF-8"),
    "UTF-32 with a mark, big end first": ("\ufeff".encode("utf-32-be") + TEXT.encode("utf-32-be"), "is UTF-32"),
    "UTF-8 with a mark": (TEXT.encode("utf-8-sig"), "byte order mark"),
    "EBCDIC": (TEXT.encode("cp500"), "is EBCDIC"),
    "Latin-1": ('{"id":"caf\xe9"}'.encode("latin-1"), "not UTF-8 at byte 10: write the JSON in UTF-8"),
    "Confluent, JSON": (b"\x00\x00\x00\x00\x01" + JSON, "Confluent wire format"),
    "Confluent, Avro": (b"\x00\x00\x00\x00\x7b\x06r-1\x0crerank", "Confluent wire format"),
    "Confluent, Protobuf": (b"\x00\x00\x00\x00\x05\x00\n\x03r-1\x12\x06rerank", "Confluent wire format"),
    "Confluent, whose id looks like UTF-32": (b"\x00\x00\x00\x7b\x00\x00\x00\x22\x06r-1\x04", "Confluent wire format"),
    "Confluent, whose id looks like UTF-16": (b"\x00\x00\x7b\x00\x22\x06r-1\x04", "Confluent wire format"),
    "Glue": (b"\x03\x00" + bytes(range(16)) + JSON, "AWS Glue"),
    "Glue, compressed": (b"\x03\x05" + bytes(range(16)) + zlib.compress(JSON), "AWS Glue"),
    "gzip": (gzip.compress(JSON), "is gzip: send the JSON itself; Kafka's producers compress by themselves"),
    "zlib": (zlib.compress(JSON), "is zlib"),
    "zlib, fast": (zlib.compress(JSON, 1), "is zlib"),
    "bzip2": (bz2.compress(JSON), "is bzip2"),
    "xz": (lzma.compress(JSON), "is xz"),
    "zstd": (b"\x28\xb5\x2f\xfd\x24\x05", "is zstd"),
    "lz4": (b"\x04\x22\x4d\x18\x64\x40", "is lz4"),
    "lz4 of Java": (b"LZ4Block\x26", "is lz4"),
    "snappy of Java": (b"\x82SNAPPY\x00\x00\x00\x00\x01", "is snappy"),
    "snappy": (b"\xff\x06\x00\x00sNaPpY\x01", "is snappy"),
    "zip": (b"PK\x03\x04\x14", "is a zip archive"),
    "an Avro file": (b"Obj\x01\x04\x16avro.schema", "is an Avro file"),
    "Avro with a fingerprint": (b"\xc3\x01" + bytes(8) + b"\x06r-1", "is Avro with a fingerprint"),
    "Avro alone": (b"\x06r-1\x0crerank", "is binary, as Avro"),
    "Protobuf": (b"\n\x03r-1\x12\x06rerank", "is binary, as Avro, Protobuf"),
    "Protobuf, not UTF-8": (b"\n\x03r-1\x1a\x82\x01", "is binary, as Avro, Protobuf"),
    "Java": (b"\xac\xed\x00\x05sr\x00", "is a serialised Java object"),
    "a pickle": (pickle.dumps(REQUEST), "is a Python pickle"),
    "an old pickle": (pickle.dumps(REQUEST, 2), "is a Python pickle"),
    ".NET": (b"\x00\x01\x00\x00\x00\xff\xff\xff\xff\x01", "is a serialised .NET object"),
    "Ruby": (b"\x04\x08{\x06", "Ruby's Marshal"),
    "Parquet": (b"PAR1\x15\x04PAR1", "is Parquet"),
    "Arrow": (b"ARROW1\x00\x00\xff", "is Arrow"),
    "MessagePack": (b"\x82\xa2id\xa3r-1\xa4task\xa6rerank", "is MessagePack"),
    "CBOR": (b"\xa2\x62id\x63r-1\x64task\x66rerank", "is CBOR"),
    "CBOR of no known length": (b"\xbf\x64task\x66rerank\xff", "is CBOR"),
    "BSON": (bson(), "is BSON"),
    "XML": ('<?xml version="1.0"?><request/>', "is XML or HTML"),
    "XML without a head": ("<request id='r-1'/>", "is XML or HTML"),
    "Python": (repr(REQUEST), "with single quotes: write it with json.dumps"),
    "Python's bytes": (repr(JSON), "Python's bytes"),
    "JavaScript": ("[object Object]", "JSON.stringify"),
    "JavaScript without quotes": ("{id: 'r-1'}", "names have no quotes"),
    "Java's text": ("{id=r-1, task=rerank}", "is a Java Map as text"),
    "Ruby's text": ('{"id"=>"r-1"}', "is a Ruby object as text"),
    "Ruby's symbols": ('{:id=>"r-1"}', "is a Ruby object as text"),
    "Go's text": ("map[id:r-1 task:rerank]", "is a Go map as text"),
    "PHP": ('a:1:{s:2:"id";s:3:"r-1";}', "PHP"),
    "an event stream": (f"data: {TEXT}\n\n", "event stream"),
    "a text sequence": (f"\x1e{TEXT}\n", "RFC 7464"),
    "lines": (f"{TEXT}\n{TEXT}\n", "several JSON objects: send a record for each"),
    "objects side by side": (TEXT * 2, "several JSON objects"),
    "objects with a comma": (f"{TEXT},{TEXT}", "several JSON objects"),
    "an array": (f"[{TEXT},{TEXT}]", "is an array, not a JSON object: send a record for each request"),
    "an array of texts": ('["zqxj7"]', "is an array, not a JSON object"),
    "JSON in a text": (json.dumps(TEXT), "is a string, not a JSON object: it holds JSON as text, encoded twice"),
    "JSON in a text in a text": (json.dumps(json.dumps(TEXT)), "encoded twice"),
    "base64": (BASE64, "is base64: send the JSON itself"),
    "base64 without padding": (BASE64.rstrip("="), "is base64"),
    "base64 in lines": (base64.encodebytes(JSON), "is base64"),
    "base64 in a text": (json.dumps(BASE64), "it holds base64"),
    "base64 of gzip": (base64.b64encode(gzip.compress(JSON)), "is base64"),
    "a string of C": (JSON + b"\x00", "ends with byte 0x00"),
    "white space": (b" \n\t ", "is white space"),
    "a byte": (b"\x01", "is binary"),
    "text and more": (f"{TEXT} zqxj7", "invalid JSON at character 70: Extra data"),
    "a text that might be base64": ("eyeballs", "invalid JSON at character 0"),
    "a word in Latin-1": ("\xa1hola!".encode("latin-1"), "not UTF-8 at byte 0"),
}


@pytest.mark.parametrize(("value", "says"), FORMATS.values(), ids=FORMATS)
def test_another_format_is_named_and_nothing_of_the_value_is_repeated(value, says):
    error = refused(value.encode() if isinstance(value, str) else value)
    assert (error.code, error.id) == (ErrorCode.MALFORMED, None)
    assert says in error.message
    assert "zqxj7" not in error.message
    assert "r-1" not in error.message


@pytest.mark.parametrize("name", FORMATS)
def test_no_beginning_of_another_format_breaks_the_reader(name):
    value = FORMATS[name][0]
    whole = value.encode() if isinstance(value, str) else value
    for length in range(min(len(whole), 40)):
        refused(whole[:length])


@pytest.mark.parametrize("name", ["__value_schema_id", "apicurio.value.globalId", "apicurio.value.contentId"])
def test_a_header_may_say_which_serialiser_wrote_a_value(name):
    assert f"`{name}`" in (named_headers({"traceparent", name}) or "")
    assert named_headers({"traceparent", "__key_schema_id"}) is None
