"""Time, passed in where it is needed, so that tests own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for durations, one for the world's time."""

    def monotonic(self) -> float:
        """Seconds since some instant; never goes back."""

    def unix_ms(self) -> int:
        """Milliseconds since 1970."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    def unix_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000
