"""One batch of Kafka's: unpacked as its records are asked for, and each record's fault its own.

The client unpacks a batch as a whole, whatever its size, and gives a partition up when one record of it cannot be read.
Here a compressed batch is unpacked in runs of about PIECE_BYTES, and a record above the limit is passed over: its place
is handed over in its stead. Runs are decoded by the client's own compiled code; only what that refuses is decoded here.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch

from producer_tools.reading.codecs import PIECE_BYTES, Unpackable, Unpacker, read, unpacker
from producer_tools.reading.records import Record, Stamps, place_of, record_of, varint

log = logging.getLogger(__name__)

_SKIP_BYTES = 8 * PIECE_BYTES
"""What is passed over in one go: some 20 ms of gzip."""
_HEAD_BYTES = 4096
"""Of a record that is passed over, for its place and its key."""

_HEADER_BYTES = 61
_COUNT = struct.Struct(">i")
_ATTRIBUTES_AT, _COUNT_AT = 22, 57
CODEC_BITS, _LOG_APPEND_TIME = 0x07, 0x08

_CUT = "its end is missing"
_FETCH_IT = "fetch it by its topic, partition and offset"


class Batch:
    """One batch (format 2, since Kafka 0.11), as the client's DefaultRecordBatch. Iterate once.

    Whatever cannot be unpacked or decoded is handed over as the places of its records.
    """

    def __init__(self, raw: memoryview, most_bytes: int, first_offset: int) -> None:
        self._raw = raw
        self._most_bytes = most_bytes
        self._first_offset = first_offset
        self._unpacker: Unpacker | None = None
        self._spoilt: Exception | None = None
        self._data = b""
        self._left = 0
        self._owed_bytes = 0
        self._behind = False
        self._inner = self._opened()
        self.is_control_batch = bool(self._inner.is_control_batch)
        self.is_transactional = bool(self._inner.is_transactional)
        self.producer_id: int | None = self._inner.producer_id
        self.base_offset = self._stamps.base_offset
        self.next_offset = int(self._inner.next_offset)

    def _opened(self) -> Any:
        batch = DefaultRecordBatch(self._raw)
        self._left = _COUNT.unpack_from(self._raw, _COUNT_AT)[0]
        self._codec = self._raw[_ATTRIBUTES_AT] & CODEC_BITS
        self._behind = bool(self._codec) and self._first_offset > int(batch.base_offset)
        # A topic may say that the time of writing counts, which then stands at one place for all.
        appended = self._raw[_ATTRIBUTES_AT] & _LOG_APPEND_TIME
        base_ms = int(batch.max_timestamp if appended else batch.first_timestamp)
        self._stamps = Stamps(int(batch.base_offset), base_ms, per_record=0 if appended else 1)
        return batch

    def validate_crc(self) -> bool:
        """Whether what the broker holds is what was written."""
        return bool(self._inner.validate_crc())

    def __next__(self) -> Any:
        """Of a control batch: its marker."""
        return next(self._inner)

    def __iter__(self) -> Iterator[Any]:
        following = max(self._first_offset, self.base_offset)
        try:
            for record in self._records():
                yield record
                following = record.offset + 1
        except Exception as fault:  # noqa: BLE001 -- codecs raise what they like; it is these records' fault
            last = self.next_offset - 1
            log.error("offsets %s to %s cannot be read: %r", following, last, fault)  # noqa: TRY400 -- it says it all
            for offset in range(following, self.next_offset):
                yield Record(offset, self._stamps.base_ms, unread=_undecodable(fault))

    @property
    def owes(self) -> bool:
        """Whether something is to be passed over: a record that is too large, or those before the first asked for."""
        return self._owed_bytes > 0 or self._behind

    def skip(self) -> None:
        """Pass over some of that. A batch that turns out to be spoilt says so when it is iterated."""
        left = _SKIP_BYTES
        try:
            while self.owes and left > 0:
                if self._owed_bytes:
                    passed = len(self._opened_unpacker().read(min(self._owed_bytes, PIECE_BYTES)))
                    if not passed:
                        raise Unpackable(_CUT)  # noqa: TRY301 -- as the codecs do
                    self._owed_bytes -= passed
                else:
                    self._unpack(PIECE_BYTES)
                    self._catch_up()
                left -= PIECE_BYTES
        except Exception as fault:  # noqa: BLE001
            self._spoilt, self._owed_bytes, self._behind = fault, 0, False

    def _catch_up(self) -> None:
        """Past what is here of records below the first that was asked for."""
        at = 0
        while self._behind and self._left and not self._owed_bytes:
            try:
                size, body = varint(self._data, at)
                _, place = varint(self._data, body + 1)
                delta, _ = varint(self._data, place)
            except IndexError:
                break
            if self._stamps.base_offset + delta >= self._first_offset:
                self._behind = False
                break
            self._left -= 1
            at = body + size
            self._owed_bytes = max(0, at - len(self._data))
        self._data = self._data[at:]
        self._behind = self._behind and self._left > 0

    def _records(self) -> Iterator[Any]:
        if not self._codec:
            yield from self._decoded(self._inner, self._raw[_HEADER_BYTES:])
            return
        self._pass_owed()
        while self._left:
            end, count, size, body = self._look(self._left)
            if count:
                self._left -= count
                run = self._run(self._cut(end), count)
                # A large record comes alone, and must not stay here twice until the next one is asked for.
                yield from list(run) if count == 1 else run
            elif size > self._most_bytes:
                self._left -= 1
                yield self._pass_over(size, body)
                self._pass_owed()
            else:
                self._unpack(body + size - len(self._data))

    def _pass_owed(self) -> None:
        while self.owes:
            self.skip()
        if self._spoilt is not None:
            raise self._spoilt

    def _run(self, records: bytes, count: int) -> Iterator[Any]:
        """So many whole records, as a batch that is not compressed."""
        header = bytearray(self._raw[:_HEADER_BYTES])
        header[_ATTRIBUTES_AT] &= ~CODEC_BITS
        _COUNT.pack_into(header, _COUNT_AT, count)
        return self._decoded(DefaultRecordBatch(bytes(header) + records), memoryview(records))

    def _cut(self, end: int) -> bytes:
        """What is here up to `end`, and here no more."""
        cut, self._data = self._data[:end], self._data[end:]
        return cut

    def _look(self, most: int) -> tuple[int, int, int, int]:
        """Where the whole records end that are here, and how many; size and place of the one behind them."""
        end, count, size, body = 0, 0, 0, 0
        while count < most:
            try:
                size, body = varint(self._data, end)
            except IndexError:
                return end, count, 0, len(self._data) + 1
            if size < 0:
                raise Unpackable("a record's length is below zero")
            if size > self._most_bytes or body + size > len(self._data):
                break
            end, count = body + size, count + 1
        return end, count, size, body

    def _unpack(self, least: int) -> None:
        """So much more, if there is so much left. Raises Unpackable at the end."""
        more = read(self._opened_unpacker(), max(PIECE_BYTES, least))
        if not more:
            raise Unpackable(_CUT)
        self._data += more

    def _opened_unpacker(self) -> Unpacker:
        if self._unpacker is None:
            self._unpacker = unpacker(self._codec, self._raw[_HEADER_BYTES:], self._most_bytes)
        return self._unpacker

    def _pass_over(self, size: int, body: int) -> Record:
        """The place of a record of `size` bytes which begins at `body`; what is not here of it is owed."""
        if len(self._data) - body < min(size, _HEAD_BYTES):
            self._unpack(_HEAD_BYTES)
        why = f"unpacked it has {size} bytes, limits.max_unpacked_bytes is {self._most_bytes}"
        place = place_of(self._data[body:], self._stamps, f"the record was not read: {why}; {_FETCH_IT}")
        self._owed_bytes = max(0, body + size - len(self._data))
        self._data = self._data[body + size :]
        return place

    def _decoded(self, batch: Any, records: memoryview) -> Iterator[Any]:
        count = 0
        try:
            for record in batch:
                yield record
                count += 1
        except Exception:  # noqa: BLE001 -- told by the reading below, record by record
            yield from islice(self._read_one_by_one(records), count, None)

    def _read_one_by_one(self, records: memoryview) -> Iterator[Record]:
        at = 0
        while at < len(records):
            size, body = varint(records, at)
            at = body + size
            if size < 0 or at > len(records):
                raise Unpackable("a record is longer than its batch")
            try:
                yield record_of(records[body:at], self._stamps)
            except (IndexError, Unpackable) as fault:
                yield place_of(bytes(records[body : body + _HEAD_BYTES]), self._stamps, _undecodable(fault))


def _undecodable(fault: Exception) -> str:
    return f"the record cannot be decoded: {str(fault) or type(fault).__name__}; {_FETCH_IT}"
