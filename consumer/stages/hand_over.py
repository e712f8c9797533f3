"""Emit: a chunk of settled records as messages. The last stage before the world; here the timings are known."""

from dataclasses import dataclass, field

from consumer.item import StageSeconds
from consumer.lane import Chunk
from consumer.records import Message, ScoreEntry
from consumer.tracing import continued


@dataclass(slots=True)
class HandedOver:
    """What every sink gets of one chunk, in the order of the requests; `stages`: of every item."""

    results: list[Message] = field(default_factory=list)
    dead_letters: list[Message] = field(default_factory=list)
    scores: list[ScoreEntry] = field(default_factory=list)
    stages: list[StageSeconds] = field(default_factory=list)


def hand_over(chunk: Chunk, now: float, now_unix_ms: int) -> HandedOver:
    """Messages of the chunk; `now` is monotonic seconds, the end of every record's `total`."""
    out = HandedOver()
    for item in chunk.items:
        record, outcome = item.record, item.outcome
        assert outcome is not None
        spent = item.stage_seconds(now)
        out.stages.append(spent)
        if outcome.dead_letter is not None:
            out.dead_letters.append(outcome.dead_letter)
        if outcome.result is None or outcome.id is None:
            continue
        value = outcome.result.finish(timings_ms(spent), now_unix_ms)
        headers = continued(outcome.result_headers, item.span) if item.span else outcome.result_headers
        out.results.append(Message(outcome.result_key, value, headers))
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


def timings_ms(spent: StageSeconds) -> dict[str, float]:
    """Milliseconds by stage, in the contract's order. A record that never entered the engine has none there."""
    return {
        "queue": spent.queue * 1000,
        "prepare": spent.prepare * 1000,
        "engine": spent.engine * 1000,
        "emit": spent.emit * 1000,
        "total": sum(spent) * 1000,
    }
