"""Where the console script begins: what must be in order before the first heavy import.

**Signals.** Importing takes seconds. In that time Python's own reactions would be a traceback for Ctrl-C, 143 for
SIGTERM, and nothing at all where the program is the first process of its container, for which the kernel has no default
reactions: a worker would start, join the group, and run until it is killed. What can end in order takes the signals
over when it has something to end: a worker and its supervisor (consumer.worker, consumer.supervisor), a tool
(producer_tools.console).

**Descriptors.** Where 0, 1 or 2 is closed, the next file or socket that is opened gets its number, and would be written
what is meant for the log.

**Warnings.** PYTHONWARNINGS=error makes a library's first DeprecationWarning the end of the program.
"""

import os
import signal
import sys
import warnings
from contextlib import suppress
from types import FrameType

_STARTING, _INTERRUPTED = 1, 130
"""Exit codes: of a worker that had not joined; of any other command."""
_WARNINGS_VARIABLE = "PYTHONWARNINGS"


def end_at_once_on_signals() -> None:
    """SIGTERM and Ctrl-C from now on."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    # Nothing has begun that an exception would have to put in order, and the imports would catch some.
    with suppress(OSError):
        os.write(2, f"quitting at once: {signal.Signals(number).name}\n".encode())
    os._exit(_STARTING if sys.argv[1:2] == ["run"] else _INTERRUPTED)


def open_closed_descriptors() -> None:
    """stdin, stdout and stderr that were closed are empty, or lead nowhere."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def let_no_warning_end_the_program() -> None:
    """What `error` would have raised is printed, here and in every process that this one starts."""
    if not any(action == "error" for action, *_ in warnings.filters):
        return
    sys.warnoptions[:] = [_harmless(option) for option in sys.warnoptions]
    if options := os.environ.get(_WARNINGS_VARIABLE):
        os.environ[_WARNINGS_VARIABLE] = ",".join(map(_harmless, options.split(",")))
    warnings.resetwarnings()
    warnings.simplefilter("default")


def _harmless(option: str) -> str:
    """Of `action:message:category:module:line`; an action may be shortened, to `e` for instance."""
    action, colon, rest = option.strip().partition(":")
    return f"default{colon}{rest}" if action and "error".startswith(action) else option


def main() -> None:
    """Entry point of the console script."""
    end_at_once_on_signals()
    open_closed_descriptors()
    let_no_warning_end_the_program()
    from consumer.cli import main as command_line  # noqa: PLC0415 -- heavy

    command_line()


if __name__ == "__main__":
    main()
