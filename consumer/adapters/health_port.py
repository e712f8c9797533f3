"""Who listens already where a worker's health is to be asked."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import suppress
from pathlib import Path

import aiohttp
from aiohttp import hdrs, web

from consumer.adapters.http_server import listening
from consumer.errors import SettingsInvalid
from consumer.sections import HealthSettings
from consumer.startup.health import Free, HealthPort, OurWorker, Stranger, Unusable

_ANSWER_SECONDS = 2.0
_LISTENS = "0A"
"""A state of /proc/net/tcp."""


async def who_listens(health: HealthSettings) -> HealthPort:
    """Bounded; listens itself for a moment where the port is free."""
    if health.unix_socket is not None:
        return await _at_socket(Path(health.unix_socket))
    if health.port == 0:
        return Free()
    try:
        async with listening(health, web.Application()):
            return Free()
    except SettingsInvalid as refused:
        cause = refused.__cause__
        if not isinstance(cause, OSError) or cause.errno != errno.EADDRINUSE:
            return Unusable(str(refused))
    # All addresses: ask ours.
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "127.0.0.1"}.get(health.host, health.host)  # noqa: S104
    place = f"[{host}]" if ":" in host else host
    if await _is_ours(f"http://{place}:{health.port}/livez", aiohttp.TCPConnector()):
        return OurWorker()
    return Stranger(await asyncio.to_thread(_process_at, health.port) or "a process that cannot be seen from here")


async def _at_socket(path: Path) -> HealthPort:
    """Nothing is made at the path: what listens there would lose it."""
    if problem := await asyncio.to_thread(_problem_of, path):
        return Unusable(problem, "set health.unix_socket to a path in a folder that is there and writable")
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
    except (OSError, TimeoutError):
        return Free()  # None is there, or one that was left behind, whose place a worker takes.
    writer.close()
    if await _is_ours("http://worker/livez", aiohttp.UnixConnector(str(path))):
        return OurWorker()
    return Stranger("a process that is no worker")


def _problem_of(path: Path) -> str:
    """Why no worker can have its socket there; empty where one can. Blocking."""
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} is no folder in which this user can make a socket"
    if path.exists() and not path.is_socket():
        return f"{path} is there and is no socket"
    return ""


async def _is_ours(url: str, connector: aiohttp.BaseConnector) -> bool:
    """Whether the answer is that of a worker, or of a supervisor."""
    try:
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            aiohttp.ClientSession(connector=connector, headers={hdrs.ACCEPT: "application/json"}) as session,
            session.get(url) as answer,
        ):
            document = await answer.json()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False
    return isinstance(document, dict) and "ok" in document and ("reasons" in document or "workers" in document)


def _process_at(port: int) -> str:
    """The process that listens on a TCP port, by name and number; empty where it cannot be seen. Blocking."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listeners(Path("/proc/net", table), port)}
    for process in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile, and others' files are not ours to look at.
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()) in sockets:
                        return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return ""


def _listeners(table: Path, port: int) -> list[str]:
    """Inodes of the sockets that listen on the port."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port]
