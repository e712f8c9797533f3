"""Batches byte by byte, as any client may write them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence

import cramjam
import lz4.frame
import zstandard
from aiokafka import AIOKafkaProducer
from aiokafka.codec import snappy_encode
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
BASE_MS = 1_700_000_000_000

Header = tuple[bytes | None, bytes | None]


def streamed_zstd(level: int) -> Callable[[bytes], bytes]:
    """Without the size in the frame, as Java writes it."""

    def pack(plain: bytes) -> bytes:
        packer = zstandard.ZstdCompressor(level=level).compressobj()
        return packer.compress(plain) + packer.flush()

    return pack


def zstd_that_lies(plain: bytes) -> bytes:
    """The frame says that it holds 16 bytes."""
    frame = bytearray(zstandard.ZstdCompressor(write_content_size=False).compress(plain))
    honest = zstandard.get_frame_parameters(bytes(frame))
    assert honest.content_size == zstandard.CONTENTSIZE_UNKNOWN
    frame[4] |= 0x40
    frame[6:6] = struct.pack("<H", 0)
    return bytes(frame)


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, gzip.compress),
    "gzip members": (GZIP, lambda plain: gzip.compress(plain[:100]) + gzip.compress(plain[100:]) + b"\0" * 7),
    "snappy of Java": (SNAPPY, snappy_encode),
    "snappy in one piece": (SNAPPY, lambda plain: bytes(cramjam.snappy.compress_raw(plain))),
    "lz4": (LZ4, lambda plain: lz4.frame.compress(plain, block_linked=False)),
    "lz4, linked blocks": (LZ4, lambda plain: lz4.frame.compress(plain, block_linked=True, store_size=False)),
    "lz4 frames": (LZ4, lambda plain: lz4.frame.compress(plain[:100]) + lz4.frame.compress(plain[100:])),
    "zstd": (ZSTD, zstandard.ZstdCompressor().compress),
    "zstd without a size": (ZSTD, streamed_zstd(3)),
    "zstd with a wide window": (ZSTD, streamed_zstd(22)),
}


def field(value: bytes | None) -> bytes:
    """A length and so many bytes; -1 for null."""
    return varint(-1) if value is None else varint(len(value)) + value


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def record(
    delta: int, value: bytes | None, key: bytes | None = None, headers: Sequence[Header] = (), tail: bytes | None = None
) -> bytes:
    """`tail`: what stands in place of the headers, with their number."""
    written = varint(len(headers)) + b"".join(field(name) + field(text) for name, text in headers)
    body = b"\0" + varint(delta) + varint(delta) + field(key) + field(value) + (written if tail is None else tail)
    return varint(len(body)) + body


def batch(records: Sequence[bytes], codec: int = 0, packed: bytes | None = None, base_offset: int = 0) -> bytes:
    """`packed`: what stands in place of the records when they are compressed."""
    body = b"".join(records) if packed is None else packed
    last = len(records) - 1
    after_crc = struct.pack(">hiqqqhii", codec, last, BASE_MS, BASE_MS + last, -1, -1, -1, len(records)) + body
    checked = struct.pack(">ibI", 0, 2, calc_crc32c(after_crc)) + after_crc
    return struct.pack(">qi", base_offset, len(checked)) + checked


def packed_batch(name: str, records: Sequence[bytes], base_offset: int = 0) -> bytes:
    codec, pack = CODECS[name]
    return batch(records, codec, pack(b"".join(records)), base_offset)


def message_set(magic: int, codec: int, values: Sequence[bytes], last_offset: int) -> bytes:
    """A compressed set of the formats 0 and 1; the broker has given its records offsets up to `last_offset`."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    first = last_offset - len(values) + 1
    for number, value in enumerate(values):
        builder.append(number if magic else first + number, BASE_MS, b"k", value)
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, last_offset)
    return bytes(built)


async def publish_batch(bootstrap_servers: str, topic: str, partition: int, data: bytes) -> None:
    """These very bytes, as other clients may write them."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        builder = producer.create_batch()
        builder.append(timestamp=None, key=None, value=b"", headers=[])
        builder._build()
        builder._buffer = bytearray(data)
        await (await producer.send_batch(builder, topic, partition=partition))
