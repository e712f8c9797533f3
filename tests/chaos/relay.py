"""The network between the workers and the broker, which can fail while both are well."""

import asyncio
from enum import Enum, auto
from typing import Self

READ_BYTES = 65_536


class Way(Enum):
    """The two ways through it."""

    TO_TARGET = auto()
    FROM_TARGET = auto()


class Relay:
    """TCP from 127.0.0.1:`port` to 127.0.0.1:`target_port`, as it comes, until the network fails."""

    def __init__(self, port: int, target_port: int) -> None:
        self.passed_bytes = dict.fromkeys(Way, 0)
        self._port = port
        self._target_port = target_port
        self._whole = asyncio.Event()
        self._whole.set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        self._lose_connections()

    async def stall(self, seconds: float) -> None:
        """Nothing passes for so long; then all of it arrives, late."""
        self._whole.clear()
        await asyncio.sleep(seconds)
        self._whole.set()

    async def cut(self, seconds: float) -> None:
        """Nothing passes for so long; then every connection is lost, and what was under way on it."""
        self._whole.clear()
        await asyncio.sleep(seconds)
        self._lose_connections()
        self._whole.set()

    def _lose_connections(self) -> None:
        for connection in self._connections:
            connection.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_target, to_target = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                async with asyncio.TaskGroup() as both_ways:
                    both_ways.create_task(self._pump(reader, to_target, Way.TO_TARGET))
                    both_ways.create_task(self._pump(from_target, writer, Way.FROM_TARGET))
            finally:
                to_target.transport.abort()
        except* OSError:
            pass  # one side has closed, and then so does the other
        finally:
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        while True:
            passing = await reader.read(READ_BYTES)
            if not passing:
                raise ConnectionResetError
            await self._whole.wait()
            self.passed_bytes[way] += len(passing)
            writer.write(passing)
            await writer.drain()
