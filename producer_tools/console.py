"""What every tool shares towards the terminal: exit codes, streams, Ctrl-C.

stdout carries data only, stderr progress and messages. Both are plain unless they are a terminal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from enum import IntEnum
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console


_STOPS = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]
"""Beside Ctrl-C. Windows has no SIGHUP."""


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    MISMATCH = 3
    INTERRUPTED = 130


class ToolFailure(Exception):
    """The command cannot do its work; the message says what was found and what to do."""


class Mismatch(Exception):
    """A verification found that the promises were not kept; the details have been printed."""


def stdout_console() -> Console:
    """The terminal for data. rich honours NO_COLOR and drops all styling when this is not a terminal."""
    from rich.console import Console  # noqa: PLC0415 - keeps `--help` light

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def stderr_console() -> Console:
    """The terminal for progress."""
    from rich.console import Console  # noqa: PLC0415 - keeps `--help` light

    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def write_lines(*lines: bytes) -> None:
    """Bytes to stdout as they are, each ended by a newline, visible to the next program at once."""
    for line in lines:
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def discard_stdout() -> None:
    """Send what is still written to stdout nowhere: its reader has gone away."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def say(message: str) -> None:
    """One line to stderr."""
    typer.echo(message, err=True)


def run_tool(work: Coroutine[object, object, None], *, interrupted: ExitCode = ExitCode.INTERRUPTED) -> None:
    """Run a command to its end and turn how it ended into an exit code.

    Ctrl-C, SIGTERM and a closed terminal cancel `work`, so its `finally` blocks stop whatever it started.
    `interrupted` is the exit code then: following a topic is ended by Ctrl-C and has not failed.
    """
    from aiokafka.errors import KafkaError  # noqa: PLC0415 - keeps `--help` light
    from redis.exceptions import RedisError  # noqa: PLC0415 - keeps `--help` light

    # Until here Ctrl-C ended the process at once; from here on there is something to put in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asyncio.run(_cancelled_by_signals(work))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(interrupted) from None
    except Mismatch:
        raise typer.Exit(ExitCode.MISMATCH) from None
    except BrokenPipeError:
        # As `head` ends it: the reader has what it wanted.
        discard_stdout()
    except (ToolFailure, KafkaError, RedisError, OSError) as failure:
        say(f"error: {failure}")
        raise typer.Exit(ExitCode.FAILURE) from None


async def _cancelled_by_signals(work: Coroutine[object, object, None]) -> None:
    # asyncio.run does this for SIGINT alone.
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a coroutine runs outside a task: this is a bug")
    loop = asyncio.get_running_loop()
    for stop in _STOPS:
        try:
            loop.add_signal_handler(stop, task.cancel)
        except NotImplementedError:  # Windows
            signal.signal(stop, lambda _number, _frame: loop.call_soon_threadsafe(task.cancel))
    await work
