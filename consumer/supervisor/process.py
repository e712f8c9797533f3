"""One worker's process with all that it starts, and the supervisor's end of the link to it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import structlog

from consumer.supervisor.link import SOCKET_VARIABLE, Link, Word
from consumer.supervisor.restarts import explain_exit

_GONE_SECONDS, _LOOK_SECONDS = 10.0, 0.02
"""For processes that got SIGKILL to be gone, with what they held of a GPU; between two looks."""
_PR_SET_CHILD_SUBREAPER = 36

log = structlog.get_logger()


class WorkerProcess:
    """Runs from the moment it is made, in a session of its own: Ctrl-C in a terminal reaches the supervisor alone.

    stdout and stderr are the supervisor's.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], warm: Callable[[], None]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 -- the command is this program's own
                command,
                env={**environment, SOCKET_VARIABLE: str(theirs.fileno())},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._warm = warm
        self._failure = ""
        self._link = Link(ours, self._hear, lambda: None)

    @property
    def pid(self) -> int:
        """Of the worker itself."""
        return self._process.pid

    def tell(self, word: Word) -> None:
        """One word to the worker."""
        self._link.tell(word)

    def quit(self) -> None:
        """SIGTERM to a worker that was not let join: it ends at once, also while it imports and hears no word yet."""
        if self._process.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the worker and all that it started, its engine above all."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def ended(self) -> tuple[int, str]:
        """Wait for the end of the worker, and end what it leaves behind; its exit code, and why it ended.

        The processes of an engine whose worker was killed would still hold the GPU's memory that the next one needs.
        Until it is reaped the worker's id is nobody else's, so the signal cannot reach strangers.
        """
        try:
            await process_end(self.pid)
        finally:
            self.kill()
        exit_code = self._process.wait()
        await self._until_nothing_is_left()
        # Its last words may still be on the way.
        self._link.read()
        self._link.close()
        return exit_code, self._failure or explain_exit(exit_code)

    async def _until_nothing_is_left(self) -> None:
        deadline = time.monotonic() + _GONE_SECONDS
        while _is_left(self.pid):
            if time.monotonic() > deadline:
                log.warning("processes of a dead worker do not end", process_group=self.pid)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _hear(self, word: Word, text: str) -> None:
        if word is Word.WARM:
            self._warm()
        elif word is Word.FAILED:
            self._failure = text


async def process_end(pid: int) -> None:
    """Wait until that process has ended, whoever reaps it. Raises ProcessLookupError when there is none."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(pid)
    gone = asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def inherit_orphans() -> None:
    """From now on what dead workers leave behind is this process's child, to be reaped here; see prctl(2).

    In a container there may be nobody else who does it, and a zombie counts as a process that is still there.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _is_left(process_group: int) -> bool:
    try:
        while os.waitpid(-process_group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # there is none, or what there was has gone to another parent
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True
