"""Stop before a broken deployment drains the topic into the dead letters.

Some refusals say more about this worker than about the request: our own faults, the engine's refusals, numbers that are
not numbers, requests for another model or task. When they are most of what a partition gets, the partition is held:
nothing of it is answered, its requests stay in Kafka, and one record every `probe_seconds` is tried again. The first
that is answered any other way lets the partition go on. One good request proves little: where the next ones fail again,
it is held again, and that is the same opening. Clients' faults and `expired` never hold anything: at peak, deadlines
pass, and a breaker would turn overload into an outage.
"""

from collections import Counter, deque
from enum import Enum, auto

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


class Verdict(Enum):
    """On one outcome. ADMITTED: it is the record's answer; all others: the lane is held, and it is forgotten.

    REOPENED: the lane was let go, and less than a window went well since. STILL_OPEN: what was tried fared no better.
    """

    ADMITTED = auto()
    OPENED = auto()
    REOPENED = auto()
    STILL_OPEN = auto()


class Breaker:
    """Of one lane. `now` is monotonic seconds."""

    def __init__(self, settings: BreakerSettings) -> None:
        self.opened_by: ErrorCode | None = None
        """The suspicious code that was most frequent when it opened; None while it is not open."""
        self._settings = settings
        self._recent: deque[ErrorCode | None] = deque()
        """Suspicious codes, None for whatever else."""
        self._suspicious: Counter[ErrorCode] = Counter()
        self._recovering = False
        """It was open, and no whole window has gone well since."""
        self._probe_at = 0.0

    @property
    def open(self) -> bool:
        """Whether the lane is held."""
        return self.opened_by is not None

    def judge(self, code: ErrorCode | None, now: float) -> Verdict:
        """What an outcome with this code means for the lane."""
        suspicion = code if code in SUSPICIOUS else None
        if self.open:
            if suspicion is not None:
                return Verdict.STILL_OPEN
            self.opened_by = None
            self._recent.clear()
            self._suspicious.clear()
            return Verdict.ADMITTED
        self._note(suspicion)
        window_records = self._settings.window_records
        if len(self._recent) < window_records:
            return Verdict.ADMITTED
        if self._suspicious.total() <= self._settings.share * window_records:
            self._recovering = False
            return Verdict.ADMITTED
        [(self.opened_by, _)] = self._suspicious.most_common(1)
        self._probe_at = now + self._settings.probe_seconds
        verdict = Verdict.REOPENED if self._recovering else Verdict.OPENED
        self._recovering = True
        return verdict

    def _note(self, suspicion: ErrorCode | None) -> None:
        self._recent.append(suspicion)
        if suspicion is not None:
            self._suspicious[suspicion] += 1
        if len(self._recent) > self._settings.window_records and (oldest := self._recent.popleft()) is not None:
            self._suspicious[oldest] -= 1

    def probe_due(self, now: float) -> bool:
        """Whether one record of the held lane may be tried now. Asking takes the turn."""
        if now < self._probe_at:
            return False
        self._probe_at = now + self._settings.probe_seconds
        return True
