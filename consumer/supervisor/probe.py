"""One question to one worker, over its Unix socket."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
from aiohttp import hdrs

from consumer.supervisor.health import Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's, to GET."""

    status: int
    body: str


async def ask(unix_socket: Path, path: str, timeout_seconds: float, accept: str = "*/*") -> Answer:
    """Raises aiohttp.ClientError when nobody listens, TimeoutError when nobody answers."""
    async with (
        asyncio.timeout(timeout_seconds),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(unix_socket))) as session,
        session.get(f"http://worker{path}", headers={hdrs.ACCEPT: accept}) as got,
    ):
        return Answer(got.status, await got.text())


async def ask_reasons(unix_socket: Path, path: str, timeout_seconds: float) -> tuple[Reason, ...]:
    """Why a worker is not live, or not ready; none when it is."""
    try:
        answer = await ask(unix_socket, path, timeout_seconds)
    except (aiohttp.ClientError, TimeoutError) as silence:
        return (Reason("no_answer", f"no answer within {timeout_seconds:g} s ({type(silence).__name__})"),)
    if answer.status == HTTPStatus.OK:
        return ()
    parted = (line.partition(": ") for line in answer.body.splitlines())
    return tuple(Reason(condition, detail) for condition, _, detail in parted)
