"""After a stall of the event loop, nothing is emitted until the broker has accepted a commit.

A process that was frozen (SIGSTOP, a paused machine, a blocked loop) does not know that its session has expired and
that its partitions have another owner. It cannot ask a clock either: only the broker knows, and tells by accepting or
refusing a commit that was sent after the stall. Until then whatever this process emits could be a stale copy.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Uncommitted:
    """Why a commit was not taken. `answered`: the broker refused it; else it did not answer in time."""

    reason: str
    answered: bool


class StallFence:
    """Closed by a stall, opened by an accepted commit or a new assignment. `now` is monotonic seconds."""

    def __init__(self, limit_seconds: float, now: float) -> None:
        self.closed = False
        self.uncommitted: Uncommitted | None = None
        """Why the broker did not take the last commit; None when it did, or when there was none."""
        self._limit_seconds = limit_seconds
        self._seen_at = now

    def look(self, now: float) -> bool:
        """Note that the loop runs; True while nothing may be emitted. Call often, and before every emission."""
        if now - self._seen_at > self._limit_seconds:
            self.closed = True
        self._seen_at = now
        return self.closed

    def open(self) -> None:
        """The broker counts this worker in."""
        self.closed = False
        self.uncommitted = None
