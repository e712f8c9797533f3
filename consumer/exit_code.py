"""How a process of the worker ends: what it logs, and with which exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
import uvloop

from consumer.errors import DependencyUnavailable, EngineDead, SettingsInvalid, causes_of

log = structlog.get_logger()


def exit_code_of(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run it to its end: its own code, 2 for what is wrong with settings, 1 for any other failure."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work())
    except SettingsInvalid as invalid:
        log.error("refused to start", reason=str(invalid))  # noqa: TRY400 -- the message says it all
        return 2
    except Exception as failure:
        causes = causes_of(failure)
        for cause in causes:
            log.error("stopped", reason=str(cause), type=type(cause).__name__, exc_info=_trace_of(cause))  # noqa: TRY400
        # Some of what is wrong with settings shows only when it runs: an instance id that is used twice, for instance.
        return 2 if any(isinstance(cause, SettingsInvalid) for cause in causes) else 1


def _trace_of(cause: Exception) -> Exception | None:
    """A dead dependency says all in its message; anything else is a bug, and where it stood matters."""
    return None if isinstance(cause, EngineDead | DependencyUnavailable | SettingsInvalid) else cause
