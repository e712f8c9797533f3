"""Where the console script begins: a signal ends the program at once, from before the first heavy import.

Importing takes seconds. In that time Python's own reactions would be a traceback for Ctrl-C, 143 for SIGTERM, and
nothing at all where the program is the first process of its container, for which the kernel has no default reactions:
the worker would start, join the group, and run until it is killed. What can end in order takes the signals over when it
has something to end: a worker, its supervisor (consumer.worker, consumer.supervisor), a tool (producer_tools.console).
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_STARTING, _INTERRUPTED = 1, 130
"""Exit codes: of a worker that had not joined; of any other command."""


def end_at_once_on_signals() -> None:
    """SIGTERM and Ctrl-C from now on."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    # Nothing has begun that an exception would have to put in order, and the imports would catch some.
    with suppress(OSError):
        os.write(2, f"quitting at once: {signal.Signals(number).name}\n".encode())
    os._exit(_STARTING if sys.argv[1:2] == ["run"] else _INTERRUPTED)


def main() -> None:
    """Entry point of the console script."""
    end_at_once_on_signals()
    from consumer.cli import main as command_line  # noqa: PLC0415 -- heavy

    command_line()


if __name__ == "__main__":
    main()
