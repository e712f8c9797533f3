"""What every tool shares towards the terminal: exit codes, streams, Ctrl-C.

stdout carries data only, stderr progress and messages. Both are plain unless they are a terminal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from enum import IntEnum
from typing import TYPE_CHECKING

import typer

from producer_tools.terminal import for_stream, visible

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
    from producer_tools.safe_console import SafeConsole  # noqa: PLC0415 - keeps `--help` light

    return SafeConsole(sys.stdout)


def stderr_console() -> Console:
    """The terminal for progress."""
    from producer_tools.safe_console import SafeConsole  # noqa: PLC0415 - keeps `--help` light

    return SafeConsole(sys.stderr)


def write_lines(*lines: bytes) -> None:
    """Bytes to stdout as they are, each ended by a newline, visible to the next program at once.

    On a terminal what it could obey is escaped.
    """
    shown = [visible(line.decode(errors="replace"), "\t").encode() for line in lines] if sys.stdout.isatty() else lines
    for line in shown:
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def discard_stdout() -> None:
    """Send what is still written to stdout nowhere: its reader has gone away."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def say(message: str) -> None:
    """A message to stderr."""
    typer.echo(for_stream(message, sys.stderr), err=True)


def bad_parameter(invalid: Exception, option: str | None = None) -> typer.BadParameter:
    """What was given, or stands in the settings, cannot be used."""
    return typer.BadParameter(for_stream(str(invalid), sys.stderr), param_hint=option)


class _Shown(logging.Formatter):
    """What libraries have to say, servers' words among it."""

    def format(self, record: logging.LogRecord) -> str:
        return for_stream(super().format(record), sys.stderr)


def run_tool(work: Coroutine[object, object, None], *, interrupted: ExitCode = ExitCode.INTERRUPTED) -> None:
    """Run a command to its end and turn how it ended into an exit code.

    Ctrl-C, SIGTERM and a closed terminal cancel `work`, so its `finally` blocks stop whatever it started.
    `interrupted` is the exit code then: following a topic is ended by Ctrl-C and has not failed.
    """
    from aiokafka.errors import KafkaError  # noqa: PLC0415 - keeps `--help` light
    from redis.exceptions import RedisError  # noqa: PLC0415 - keeps `--help` light

    from producer_tools.connections.redis_refusal import words_of  # noqa: PLC0415 - keeps `--help` light

    # Until here Ctrl-C ended the process at once; from here on there is something to put in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Shown())
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
        say(f"error: {words_of(failure) if isinstance(failure, RedisError) else failure}")
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
