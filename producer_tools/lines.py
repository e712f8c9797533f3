"""Lines of a file or of stdin, without blocking the event loop and without holding up Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from typing import BinaryIO

READ_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 24
"""A longer line is not JSONL: refused before it fills the memory."""


async def read_lines(source: BinaryIO) -> AsyncIterator[tuple[int, bytes]]:
    """(line number from 1, line without its end) of every line that is not blank.

    A line is there as soon as its end has been written. Raises ValueError for a line above MAX_LINE_BYTES and OSError.
    """
    number, rest = 0, b""
    async for block in _blocks(source.fileno()):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, line.rstrip(b"\r")
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError(f"line {number + 1} is longer than {MAX_LINE_BYTES} bytes: one JSON object per line")
    if rest.strip():
        yield number + 1, rest


async def _blocks(descriptor: int) -> AsyncIterator[bytes]:
    # A terminal or a pipe may never answer again. Only a daemon thread can be left behind in such a read (an executor's
    # is joined at exit), and a read of the descriptor itself holds no lock that the interpreter wants when it ends.
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue(maxsize=4)

    def read() -> None:
        block = b"start"
        while block:
            try:
                block = os.read(descriptor, READ_BYTES)
                item: bytes | OSError = block
            except OSError as failure:
                block, item = b"", failure
            try:
                asyncio.run_coroutine_threadsafe(arrived.put(item), loop).result()
            except (CancelledError, RuntimeError):
                return  # The loop has ended: nobody reads these lines any more.

    threading.Thread(target=read, name="lines", daemon=True).start()
    while item := await arrived.get():
        if isinstance(item, OSError):
            raise item
        yield item
