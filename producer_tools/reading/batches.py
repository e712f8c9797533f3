"""The batches of a fetch, of whatever format, in place of the client's own reading of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.legacy_records import LegacyRecordBatch, _LegacyRecordBatchPy

from producer_tools.reading.batch import CODEC_BITS, Batch
from producer_tools.reading.codecs import LZ4, Unpackable, read, unpacker
from producer_tools.reading.records import Stamps

_LENGTH = struct.Struct(">qi")
_SIZE = struct.Struct(">i")
_MAGIC_AT, _OLD_ATTRIBUTES_AT = 16, 17


class Batches:
    """The batches of one partition's part of a fetch; as the client's MemoryRecords."""

    def __init__(self, data: bytes, most_bytes: int) -> None:
        self._first_offset = 0
        self._current: Batch | None = None
        self._ahead: Batch | None = None
        self._data = memoryview(data)
        self._most_bytes = most_bytes

    def has_next(self) -> bool:
        """Whether there is a whole batch."""
        return self._ahead is not None or self._next_bytes() is not None

    def size_in_bytes(self) -> int:
        """What is left, whole batches or not."""
        return len(self._data)

    def begin(self, first_offset: int) -> None:
        """What was asked for. The first batch may begin below it, and is then passed over up to it."""
        self._first_offset = first_offset
        with suppress(CorruptRecordException):
            self._current = self._ahead = self._opened()

    def next_batch(self) -> Any:
        """The next one; None when there is none. Raises CorruptRecordException."""
        batch, self._ahead = self._ahead or self._opened(), None
        self._current = batch
        return batch

    def _opened(self) -> Batch | None:
        size = self._next_bytes()
        if size is None:
            return None
        if size <= _MAGIC_AT:
            raise CorruptRecordException(f"a batch of {size} bytes")
        raw = self._data[:size]
        kind = Batch if raw[_MAGIC_AT] > 1 else OldBatch
        batch = kind(raw, self._most_bytes, self._first_offset)
        self._data, self._first_offset = self._data[size:], batch.next_offset
        return batch

    @property
    def owes(self) -> bool:
        """Whether something is to be passed over before the next record is here."""
        return self._current is not None and self._current.owes

    def skip(self) -> None:
        """Pass over some of that."""
        if self._current is not None:
            self._current.skip()

    def _next_bytes(self) -> int | None:
        if len(self._data) < _LENGTH.size:
            return None
        _, length = _LENGTH.unpack_from(self._data)
        size = _LENGTH.size + int(length)
        return size if size <= len(self._data) else None


class OldBatch(Batch):
    """A message set of the formats 0 and 1. Compressed it is the value of a message, and unpacked as a whole."""

    def _opened(self) -> Any:
        self._stamps = Stamps(0, 0, 0)
        return LegacyRecordBatch(self._raw, self._raw[_MAGIC_AT])

    def _records(self) -> Iterator[Any]:
        if self._raw[_OLD_ATTRIBUTES_AT] & CODEC_BITS:
            yield from _PackedSet(self._raw, self._raw[_MAGIC_AT], self._most_bytes)
        else:
            yield from self._inner


class _PackedSet(_LegacyRecordBatchPy):  # type: ignore[misc]  # aiokafka is untyped
    """The client's own reading of a compressed message set, less its unpacking."""

    def __init__(self, raw: memoryview, magic: int, most_bytes: int) -> None:
        super().__init__(raw, magic)
        self._most_bytes = most_bytes

    def _decompress(self, key_offset: int) -> bytes:
        (key_bytes,) = _SIZE.unpack_from(self._buffer, key_offset)
        at = key_offset + _SIZE.size + max(0, key_bytes)
        (packed_bytes,) = _SIZE.unpack_from(self._buffer, at)
        packed = self._buffer[at + _SIZE.size :][: max(0, packed_bytes)]
        codec, limit = self._compression_type, self._most_bytes
        if codec == LZ4 and self._magic == 0:
            raise Unpackable("lz4 of brokers before 0.10 has another format")
        whole = read(unpacker(codec, packed, limit), limit + 1)
        if len(whole) > limit:
            raise Unpackable(f"it unpacks to more than {limit} bytes (limits.max_unpacked_bytes)")
        return whole
