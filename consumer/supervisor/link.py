"""What a worker and its supervisor tell each other: single words over a socket pair, a packet each.

The worker inherits its end, and either side notices at once when the other's process is gone, however it ended. To
drain is a word and not a signal, because a worker that got two signals would quit at once, and process managers
(systemd, for one) send theirs to every process.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

from consumer.errors import causes_of

SOCKET_VARIABLE = "SCORESTREAM_SUPERVISOR_FD"
"""Names the descriptor that a worker inherits; not set in a worker without a supervisor."""
COUNT_VARIABLE = "SCORESTREAM_WORKER_COUNT"
"""How many workers the supervisor has; each of them has settings for one."""

_PACKET_BYTES = 4096
_REASON_CHARACTERS = 1000


class Word(StrEnum):
    """The first word of a packet."""

    WARM = "warm"
    """Worker: the engine is warm, it could join the group."""
    FAILED = "failed"
    """Worker: it is about to end; the reason follows."""
    JOIN = "join"
    """Supervisor: join the group now."""
    DRAIN = "drain"
    """Supervisor: finish what is in flight, leave the group, end."""


class Link:
    """One end. `heard` gets each word with what follows it; `lost` is called once, when the other end is gone."""

    def __init__(self, end: socket.socket, heard: Callable[[Word, str], None], lost: Callable[[], None]) -> None:
        end.setblocking(False)
        self._end = end
        self._heard, self._lost = heard, lost
        asyncio.get_running_loop().add_reader(end, self.read)

    def tell(self, word: Word, text: str = "") -> None:
        """To an end that is gone this does nothing: whoever was there hears nothing any more, and `lost` says so."""
        if self._end.fileno() < 0:
            return
        with suppress(ConnectionError):
            self._end.send(f"{word} {text[:_REASON_CHARACTERS]}".encode())

    def read(self) -> None:
        """Hear all that has come."""
        while self._end.fileno() >= 0:
            try:
                packet = self._end.recv(_PACKET_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                packet = b""
            if packet:
                word, _, text = packet.decode().partition(" ")
                self._heard(Word(word), text)
            else:
                self.close()
                self._lost()

    def close(self) -> None:
        """Tell and hear nothing any more."""
        if self._end.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._end)
            self._end.close()


class Unsupervised:
    """A worker on its own: it joins when it is warm, and only signals stop it."""

    workers = 1

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Nobody will call it."""

    async def turn_to_join(self) -> None:
        """At once."""


class Supervised:
    """A worker's end of the link. A supervisor that is gone stops its workers as one that says so."""

    def __init__(self, end: socket.socket, workers: int) -> None:
        self.workers = workers
        self._may_join = asyncio.Event()
        self._stopped = False
        self._stop: Callable[[], None] | None = None
        self._link = Link(end, self._hear, self._be_stopped)

    def on_stop(self, stop: Callable[[], None]) -> None:
        """What to do when the supervisor says so or is gone, from now on; at once when that has happened."""
        self._stop = stop
        if self._stopped:
            stop()

    async def turn_to_join(self) -> None:
        """Say that the engine is warm, and wait for the others."""
        self._link.tell(Word.WARM)
        await self._may_join.wait()

    def fail(self, failure: Exception) -> None:
        """Say what this worker ends with."""
        self._link.tell(Word.FAILED, "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes_of(failure)))

    def close(self) -> None:
        """The supervisor is of no more interest."""
        self._link.close()

    def _hear(self, word: Word, _text: str) -> None:
        if word is Word.JOIN:
            self._may_join.set()
        elif word is Word.DRAIN:
            self._be_stopped()

    def _be_stopped(self) -> None:
        self._stopped = True
        if self._stop is not None:
            self._stop()


Supervision = Supervised | Unsupervised


@asynccontextmanager
async def supervision() -> AsyncIterator[Supervision]:
    """This worker's supervision, until it ends; what it fails with is told."""
    descriptor = os.environ.get(SOCKET_VARIABLE)
    if descriptor is None:
        yield Unsupervised()
        return
    # The engine's processes must not keep it open: it tells that this worker has ended.
    os.set_inheritable(int(descriptor), False)
    supervised = Supervised(socket.socket(fileno=int(descriptor)), int(os.environ[COUNT_VARIABLE]))
    try:
        yield supervised
    except Exception as failure:
        supervised.fail(failure)
        raise
    finally:
        supervised.close()
