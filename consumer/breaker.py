"""Stop before a broken deployment drains the topic into the dead letters.

Some refusals say more about this worker than about the request: our own faults, the engine's refusals, numbers that are
not numbers, requests for another model or task. When they are most of what a partition gets, the partition is held:
nothing of it is answered, its requests stay in Kafka, and one record every `probe_seconds` is tried again. The first
that is answered any other way lets the partition go on. Clients' faults and `expired` never hold anything: at peak,
deadlines pass, and a breaker would turn overload into an outage.
"""

from collections import deque

from consumer.sections import BreakerSettings
from schemas.errors import ErrorCode

SUSPICIOUS = frozenset(
    {
        ErrorCode.INTERNAL,
        ErrorCode.ENGINE_REJECTED,
        ErrorCode.NON_FINITE,
        ErrorCode.WRONG_MODEL,
        ErrorCode.UNSUPPORTED_TASK,
    }
)
"""Codes that count against this deployment."""


class Breaker:
    """Of one lane. `now` is monotonic seconds."""

    def __init__(self, settings: BreakerSettings) -> None:
        self.open = False
        self._settings = settings
        self._recent: deque[bool] = deque()
        self._suspicious_records = 0
        self._probe_at = 0.0

    def admits(self, code: ErrorCode | None, now: float) -> bool:
        """Whether an outcome with this code may be the record's answer; False: the lane is held from now on."""
        suspicious = code in SUSPICIOUS
        if self.open:
            if not suspicious:
                self.open = False
                self._recent.clear()
                self._suspicious_records = 0
            return not suspicious
        window_records = self._settings.window_records
        self._recent.append(suspicious)
        self._suspicious_records += suspicious
        if len(self._recent) > window_records:
            self._suspicious_records -= self._recent.popleft()
        full = len(self._recent) == window_records
        if full and self._suspicious_records > self._settings.share * window_records:
            self.open = True
            self._probe_at = now + self._settings.probe_seconds
        return not self.open

    def probe_due(self, now: float) -> bool:
        """Whether one record of the held lane may be tried now. Asking takes the turn."""
        if now < self._probe_at:
            return False
        self._probe_at = now + self._settings.probe_seconds
        return True
