"""The results cache in memory, with the fence of the wire contract, section 5. Passes the contract suite of Redis."""

from __future__ import annotations

import json
from collections.abc import Sequence

from consumer.errors import DependencyUnavailable
from consumer.records import ScoreEntry


class InMemoryScores:
    """A `ScoreStore`. `values[id]` is what GET finds; `published` is every (id, payload). Set `available` to fail."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.ttl_seconds: dict[str, int] = {}
        self.published: list[tuple[str, str]] = []
        self.available = True

    async def write(self, entries: Sequence[ScoreEntry]) -> int:
        if not self.available:
            raise DependencyUnavailable("redis", "not available")
        refused = 0
        for entry in entries:
            if not entry.force and fence_refuses(self.values.get(entry.id, b""), entry):
                refused += 1
            else:
                self.values[entry.id] = entry.value
                self.ttl_seconds[entry.id] = entry.ttl_seconds
            self.published.append((entry.id, entry.status))
        return refused


def fence_refuses(stored_value: bytes, new: ScoreEntry) -> bool:
    """Whether what is stored must stay."""
    try:
        stored = json.loads(stored_value)
        source = stored["source"]
        place = (source["topic"], source["partition"])
        offset, timestamp_ms = source["offset"], source["timestamp_ms"]
        status = stored["status"]
    except (ValueError, KeyError, TypeError):
        return False
    if place != (new.topic, new.partition):
        return bool(timestamp_ms > new.timestamp_ms)
    if (offset, timestamp_ms) == (new.offset, new.timestamp_ms):
        return bool(status == "ok" and new.status == "error")
    return bool(offset > new.offset and timestamp_ms >= new.timestamp_ms)
