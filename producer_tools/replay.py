"""Dead letters back to the request topic, as they were."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple

from aiokafka import ConsumerRecord

from producer_tools.connections.kafka import Brokers
from producer_tools.console import say
from producer_tools.coordinates import Coordinates, source_of
from producer_tools.kafka import open_publisher, open_reader, read_spans, spans_of
from schemas import headers as names
from schemas.dead_letter import ERROR_CODE, NotReplayable, Record, own_headers, replayed


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters are meant; an empty set means all."""

    codes: frozenset[str]
    ids: frozenset[str]

    def takes(self, code: str, request_id: str) -> bool:
        """Whether a dead letter of this code and id is meant."""
        return (not self.codes or code in self.codes) and (not self.ids or request_id in self.ids)


class Replay(NamedTuple):
    """One request to send again."""

    source: Coordinates
    code: str
    id: str
    request: Record


async def replay(
    *,
    brokers: Brokers,
    dead_letter_topic: str,
    request_topic: str,
    selected: Filter,
    force: bool,
    show: Callable[[Replay], None],
) -> None:
    """Send the selected dead letters to their original partitions; `show` is called with each.

    `force` marks them so that their results override newer ones in Redis. Raises ToolFailure, KafkaError.
    """
    async with open_publisher(brokers) as publisher:
        partitions = await publisher.partition_count(request_topic)
        async for one in selected_dead_letters(brokers, dead_letter_topic, selected):
            marks = ((names.REPLAY_FORCE, b"1"),) if force else ()
            # Back to where the entity's other requests are, so that its order is kept.
            partition = one.source.partition if one.source.partition < partitions else None
            await publisher.send(
                request_topic,
                one.request.value,
                key=one.request.key,
                headers=(*one.request.headers, *marks),
                partition=partition,
            )
            show(one)
        await publisher.flush()
        say(f"replayed {publisher.acknowledged_records} dead letters to {request_topic}")


async def selected_dead_letters(brokers: Brokers, dead_letter_topic: str, selected: Filter) -> AsyncIterator[Replay]:
    """The selected dead letters on the topic now, each request once. What cannot be replayed is told on stderr."""
    known: set[Coordinates] = set()
    async with open_reader(brokers) as reader:
        spans = await spans_of(reader, dead_letter_topic)
        async for records in read_spans(reader, spans):
            for record in records:
                one = _replay_of(record, selected)
                if one is not None and one.source not in known:
                    known.add(one.source)
                    yield one


def _replay_of(record: ConsumerRecord, selected: Filter) -> Replay | None:
    own = own_headers(record.headers)
    code, request_id = own.get(ERROR_CODE, ""), own.get(names.ID, "")
    source = source_of(record.headers)
    if not selected.takes(code, request_id):
        return None
    place = f"{record.topic}/{record.partition}/{record.offset}"
    if source is None:
        say(f"{place} is left out: not a dead letter, it has no source coordinates")
        return None
    try:
        return Replay(source, code, request_id, replayed(record.key, record.value, record.headers))
    except NotReplayable as reason:
        say(f"{place} is left out: {reason}")
        return None
