"""The network between workers and a broker, cut at Kafka's own frames: one kind of request can fail alone.

A connection's requests are answered in order, so a request that is held keeps those behind it on the same connection
waiting, as a slow broker does; other connections go on.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from math import inf
from typing import Self, get_args

from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequestStruct

_FIRST_THROTTLED = 3
"""From this version on an answer to an offset commit tells for how long the broker throttles."""


class Api(IntEnum):
    """Kafka's numbers of the requests that tests strike at or count."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    OFFSET_COMMIT = 8
    JOIN_GROUP = 11
    HEARTBEAT = 12


@dataclass(frozen=True, slots=True)
class Request:
    """One request's frame, without its length."""

    frame: bytes

    @property
    def api(self) -> int:
        return int.from_bytes(self.frame[:2])

    @property
    def version(self) -> int:
        return int.from_bytes(self.frame[2:4])

    @property
    def correlation_id(self) -> int:
        return int.from_bytes(self.frame[4:8])

    @property
    def header(self) -> bytes:
        """Of a version without tagged fields."""
        client_id_bytes = max(0, int.from_bytes(self.frame[8:10], signed=True))
        return self.frame[: 10 + client_id_bytes]


class Fault:
    """Strikes the next `times` requests of one kind, those with the bytes of `mentions`, a topic or a group."""

    def __init__(self, api: Api, mentions: str, times: float) -> None:
        self.struck = asyncio.Event()
        """Set when it has struck for the first time."""
        self._api = api
        self._mentions = mentions.encode()
        self._times = times

    def strikes(self, request: Request) -> bool:
        if not self._times or request.api != self._api or self._mentions not in request.frame:
            return False
        self._times -= 1
        self.struck.set()
        return True


class Hold(Fault):
    """Keeps what it strikes until it is released."""

    def __init__(self, api: Api, mentions: str) -> None:
        super().__init__(api, mentions, inf)
        self.released = asyncio.Event()


class Delay(Fault):
    """Keeps each that it strikes, and what comes behind it, for so many seconds."""

    def __init__(self, api: Api, mentions: str, seconds: float) -> None:
        super().__init__(api, mentions, inf)
        self.seconds = seconds


class Refusal(Fault):
    """The broker refuses what it strikes, with this error."""

    def __init__(self, error: type[KafkaError], group: str, times: int) -> None:
        super().__init__(Api.OFFSET_COMMIT, group, times)
        self.error = error


class LostAnswer(Fault):
    """The broker does what it was asked; the connection is lost before the answer comes."""


class KafkaProxy:
    """TCP from 127.0.0.1:`port` to 127.0.0.1:`target_port`. The broker advertises `port` to who comes this way."""

    def __init__(self, port: int, target_port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.requests: Counter[int] = Counter()
        """How many came, by kind."""
        self.answered_bytes: Counter[int] = Counter()
        """What went back, by kind of request."""
        self._port = port
        self._target_port = target_port
        self._faults: list[Fault] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()

    @contextmanager
    def hold(self, api: Api, mentions: str = "") -> Iterator[Hold]:
        """Requests that match do not reach the broker while this lasts; then all do, late."""
        hold = Hold(api, mentions)
        self._faults.append(hold)
        try:
            yield hold
        finally:
            self._faults.remove(hold)
            hold.released.set()

    @contextmanager
    def delay(self, api: Api, mentions: str, seconds: float) -> Iterator[Delay]:
        """Requests that match reach the broker so many seconds late, one after the other, while this lasts."""
        delay = Delay(api, mentions, seconds)
        self._faults.append(delay)
        try:
            yield delay
        finally:
            self._faults.remove(delay)

    def refuse_commit(self, error: type[KafkaError], group: str, times: int = 1) -> Refusal:
        """The group's next offset commits are refused; nothing of them is committed."""
        refusal = Refusal(error, group, times)
        self._faults.append(refusal)
        return refusal

    def lose_answer(self, api: Api, mentions: str, times: int = 1) -> LostAnswer:
        """To the next requests that match."""
        lost = LostAnswer(api, mentions, times)
        self._faults.append(lost)
        return lost

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        asked: dict[int, tuple[Request, Fault | None]] = {}
        try:
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                async with asyncio.TaskGroup() as both_ways:
                    both_ways.create_task(self._ask(from_client, to_broker, asked))
                    both_ways.create_task(self._answer(from_broker, to_client, asked))
            finally:
                to_broker.transport.abort()
        except* (OSError, asyncio.IncompleteReadError):
            pass  # one side has closed, and then so does the other
        finally:
            to_client.transport.abort()

    async def _ask(
        self,
        from_client: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        asked: dict[int, tuple[Request, Fault | None]],
    ) -> None:
        while True:
            request = Request(await _read_frame(from_client))
            self.requests[request.api] += 1
            fault = next((one for one in self._faults if one.strikes(request)), None)
            if isinstance(fault, Hold):
                await fault.released.wait()
            if isinstance(fault, Delay):
                await asyncio.sleep(fault.seconds)
            asked[request.correlation_id] = (request, fault)
            await _write_frame(to_broker, _commit_of_nothing(request) if isinstance(fault, Refusal) else request.frame)

    async def _answer(
        self,
        from_broker: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        asked: dict[int, tuple[Request, Fault | None]],
    ) -> None:
        while True:
            answer = await _read_frame(from_broker)
            request, fault = asked.pop(int.from_bytes(answer[:4]))
            if isinstance(fault, LostAnswer):
                raise ConnectionResetError
            if isinstance(fault, Refusal):
                answer = answer[:4] + _refused_commit(request, fault.error.errno)
            self.answered_bytes[request.api] += len(answer)
            await _write_frame(to_client, answer)


def _commit_of_nothing(request: Request) -> bytes:
    """What the broker gets instead of a refused commit, so that it answers in its turn and commits nothing."""
    commit = _decode_commit(request)
    commit.topics = []
    return request.header + bytes(commit.encode())


def _refused_commit(request: Request, error_code: int) -> bytes:
    commit = _decode_commit(request)
    topics = [(topic, [(one[0], error_code) for one in partitions]) for topic, partitions in commit.topics]
    answered = {"topics": topics} if request.version < _FIRST_THROTTLED else {"topics": topics, "throttle_time_ms": 0}
    return bytes(commit.RESPONSE_TYPE(**answered).encode())


def _decode_commit(request: Request) -> OffsetCommitRequestStruct:
    versions = {one.API_VERSION: one for one in get_args(OffsetCommitRequestStruct)}
    return versions[request.version].decode(BytesIO(request.frame[len(request.header) :]))


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size_bytes,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size_bytes)


async def _write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()
