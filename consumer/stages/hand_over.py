"""Emit: a chunk of settled records as messages. The last stage before the world; here the timings are known."""

from dataclasses import dataclass, field

from consumer.item import Item
from consumer.lane import Chunk
from consumer.records import Message, ScoreEntry


@dataclass(slots=True)
class HandedOver:
    """What every sink gets of one chunk, in the order of the requests."""

    results: list[Message] = field(default_factory=list)
    dead_letters: list[Message] = field(default_factory=list)
    scores: list[ScoreEntry] = field(default_factory=list)


def hand_over(chunk: Chunk, now: float, now_unix_ms: int) -> HandedOver:
    """Messages of the chunk; `now` is monotonic seconds, the end of every record's `total`."""
    out = HandedOver()
    for item in chunk.items:
        record, outcome = item.record, item.outcome
        assert outcome is not None
        if outcome.dead_letter is not None:
            out.dead_letters.append(outcome.dead_letter)
        if outcome.result is None or outcome.id is None:
            continue
        value = outcome.result.finish(timings_ms(item, now), now_unix_ms)
        out.results.append(Message(outcome.result_key, value, outcome.result_headers))
        out.scores.append(
            ScoreEntry(
                id=outcome.id,
                value=value,
                status=outcome.result.status,
                ttl_seconds=outcome.ttl_seconds,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                force=outcome.force,
            )
        )
    return out


def timings_ms(item: Item, now: float) -> dict[str, float]:
    """Milliseconds by stage. A record that never entered the engine spent its time in prepare and emit only."""
    queue = engine = 0.0
    prepared_at = item.settled_at
    if item.ready_at:
        prepared_at = item.ready_at
        left_queue_at = item.started_at if item.started_at is not None else item.settled_at
        queue = left_queue_at - item.ready_at
    if item.started_at is not None:
        engine = item.returned_at - item.started_at
    return {
        "queue": queue * 1000,
        "prepare": (prepared_at - item.received_at) * 1000,
        "engine": engine * 1000,
        "emit": (now - item.settled_at) * 1000,
        "total": (now - item.received_at) * 1000,
    }
