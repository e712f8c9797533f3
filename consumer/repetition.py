"""Log lines of the Kafka client that come again and again: one a minute of each kind, and how many were left out.

It tells every connection that closes and every attempt that fails, at level error, hundreds in a minute while a broker
is away. That is no judgement: the worker judges by what lasts, and says so itself (health.py, and its own events).
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

PERIOD_SECONDS = 60.0
"""Between two lines of one kind."""
MAX_KINDS = 256
"""Kinds remembered, more than the client has; beyond it, the one that was logged longest ago is forgotten."""


@dataclass(slots=True)
class _Kind:
    logged_at: float
    left_out: int = 0


class RepetitionFilter(logging.Filter):
    """For a handler: lines of `library` and its modules alone. Of one kind are those of one logger and one template.

    Whoever logs from several threads may find a count off by one.
    """

    def __init__(self, library: str, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(library)
        self._now = now
        self._kinds: OrderedDict[tuple[str, object], _Kind] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it. Affects: its message, by what was left out since the last one; its level.

        Never above warning, except with a trace: that is the client's own failure.
        """
        if not super().filter(record):
            return True
        if record.levelno > logging.WARNING and not record.exc_info:
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        now = self._now()
        name = (record.name, record.msg)
        if kind := self._kinds.get(name):
            passed_seconds = now - kind.logged_at
            if passed_seconds < PERIOD_SECONDS:
                kind.left_out += 1
                return False
            if kind.left_out:
                record.msg = f"{record.getMessage()} ({kind.left_out} more like it in the last {passed_seconds:.0f} s)"
                record.args = ()
        self._kinds[name] = _Kind(now)
        self._kinds.move_to_end(name)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        return True
