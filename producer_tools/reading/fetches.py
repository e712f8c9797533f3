"""What a fetch brought of one partition, taken out in portions: so many records, and about so many bytes.

These classes stand in place of the client's own of the same use. The client gives records out by number alone, and a
compressed fetch of a mebibyte may hold a thousand times as much.
"""
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException

from producer_tools.reading.batches import Batches

MAX_UNPACKED_BYTES = 24_403_223
"""What half of 512 MiB lets one record weigh, at 11 bytes for each of its own."""
TOOL_PORTION_BYTES = 8 << 20
"""What a tool takes out at once."""


class Bounds(NamedTuple):
    """`portion_bytes`: of the records of one partition that getmany() gives out at once, one record at least.

    `max_unpacked_bytes`: of one record of a compressed batch. `steps`: how much is passed over within one getmany().
    """

    portion_bytes: int = TOOL_PORTION_BYTES
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES
    steps: float = inf


class DamagedBatch(CorruptRecordException):  # type: ignore[misc]  # aiokafka is untyped
    """A batch's checksum is wrong: what the broker holds is not what was written. `partition`: the client's."""

    def __init__(self, partition: Any, cause: Exception) -> None:
        super().__init__(str(cause))
        self.partition = partition


def read_within(consumer: AIOKafkaConsumer, bounds: Bounds, made_of: Callable[[Any, Any], Any] | None = None) -> None:
    """Let this consumer read within bounds, and past what it cannot read. Call after start().

    `made_of`: what getmany() gives out, of the client's TopicPartition and the client's record or a Record; by itself
    the client's ConsumerRecord, whose value is None where it was not read.

    The client names its classes where it uses them: these methods are the fetcher's own code with other global names.
    """

    class FetchResult(_FetchResult):
        """Of one consumer: the client compares classes."""

        portion_bytes, steps = bounds.portion_bytes, bounds.steps

    names = {
        **vars(fetcher),
        "MemoryRecords": partial(Batches, most_bytes=bounds.max_unpacked_bytes),
        "PartitionRecords": partial(_PartitionRecords, made_of),
        "FetchResult": FetchResult,
    }
    for method in ("_proc_fetch_request", "fetched_records", "next_record"):
        own = getattr(fetcher.Fetcher, method)
        function = FunctionType(own.__code__, names, method, own.__defaults__)
        setattr(consumer._fetcher, method, MethodType(function, consumer._fetcher))


def owes(consumer: AIOKafkaConsumer, partition: Any) -> bool:
    """Whether what was fetched of this partition gives nothing out before getmany() has done some more work on it."""
    result = consumer._fetcher._records.get(partition)
    return isinstance(result, _FetchResult) and result.owes


class _PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """The client's walk through the batches: transactions, markers, positions."""

    def __init__(
        self,
        made_of: Callable[[Any, Any], Any] | None,
        tp: Any,
        records: Batches,
        aborted: Any,
        fetch_offset: int,
        *options: Any,
    ) -> None:
        super().__init__(tp, records, aborted, fetch_offset, *options)
        records.begin(fetch_offset)
        self.batches = records
        if made_of is not None:
            self._consumer_record = made_of


class _FetchResult(fetcher.FetchResult):  # type: ignore[misc]
    """What is left of a fetch."""

    portion_bytes: int
    steps: float
    _partition_records: _PartitionRecords | None

    @property
    def owes(self) -> bool:
        """Whether something is to be passed over before the next record can be given out."""
        return self._partition_records is not None and self._partition_records.batches.owes

    def getall(self, max_records: int | None = None) -> list[Any]:
        """The next records. None may come although there are more: then it `owes`, and has done a part of that."""
        if not self.check_assignment(self._topic_partition) or self._partition_records is None:
            return []
        records, batches = self._partition_records, self._partition_records.batches
        most_records = inf if max_records is None else max_records
        taken: list[Any] = []
        size_bytes, steps = 0, self.steps
        while len(taken) < most_records and size_bytes < self.portion_bytes:
            while batches.owes and steps and not taken:
                batches.skip()
                steps -= 1
            if batches.owes:
                break
            try:
                record = next(records, None)
            except CorruptRecordException as damage:
                self._update_position()
                # What stands before it is good. The next call asks the broker again, from there.
                if taken:
                    break
                raise DamagedBatch(self._topic_partition, damage) from damage
            if record is None:
                self._update_position()
                self._partition_records = None
                return taken
            taken.append(record)
            size_bytes += _weight(record)
        self._update_position()
        return taken


def _weight(record: Any) -> int:
    size_bytes = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size_bytes += len(name) + len(value or b"")
    return size_bytes
