"""When a worker that ended starts again, and when that is of no use. Pure: time is passed in."""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""Before a restart; each next one doubles it."""
HEALTHY_SECONDS = 300.0
"""Whoever has run for so long begins with the first pause again; and the settings of all can work."""
DEATHS, DEATHS_WITHIN_SECONDS = 5, 600.0
"""So often in so long: something is wrong that no restart mends. An end with 0 counts if it came before the join."""
SETTINGS_EXIT_CODE = 2
"""Of a worker that cannot work as things are; also when a server that it needs to start is away."""


@dataclass(frozen=True, slots=True)
class End:
    """How one worker ended. `ran_seconds`: since it was let join the group; 0 if it was not."""

    exit_code: int
    reason: str
    ran_seconds: float


@dataclass(frozen=True, slots=True)
class Again:
    """Start it again after a pause."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End all workers, and the supervisor with this exit code."""

    exit_code: int
    why: str


class Restarts:
    """Of one worker and its successors."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()
        self._in_a_row = 0

    def after(self, end: End, now: float, *, proven: bool) -> Again | GiveUp:
        """What to do. `proven`: some worker has been healthy for long with these settings.

        Then a refusal to start has another cause, a broker that is away above all, and must not end the others.
        """
        if end.exit_code == SETTINGS_EXIT_CODE and not proven:
            return GiveUp(SETTINGS_EXIT_CODE, end.reason)
        if end.ran_seconds >= HEALTHY_SECONDS:
            self._in_a_row = 0
        if end.exit_code == 0 and end.ran_seconds:  # somebody told this one worker to stop
            return Again(FIRST_PAUSE_SECONDS)
        if end.exit_code != SETTINGS_EXIT_CODE:
            self._deaths.append(now)
            while self._deaths[0] < now - DEATHS_WITHIN_SECONDS:
                self._deaths.popleft()
            if len(self._deaths) >= DEATHS:
                return GiveUp(1, f"ended {DEATHS} times within {DEATHS_WITHIN_SECONDS:g} s, at last: {end.reason}")
        pause_seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**self._in_a_row)
        self._in_a_row += 1
        return Again(pause_seconds)


def explain_exit(exit_code: int) -> str:
    """In words, for a worker that could not say it itself."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"killed by {name}" + (" (kill -9, or out of memory)" if -exit_code == signal.SIGKILL else "")
