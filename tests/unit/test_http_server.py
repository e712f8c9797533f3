"""The port that is open to strangers: what they send and hold keeps nobody else from an answer."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager
from io import StringIO
from pathlib import Path

import aiohttp
import pytest
import uvloop
from aiohttp import web

from consumer import logs
from consumer.adapters import http_server, http_visits
from consumer.adapters.http_server import listening
from consumer.errors import SettingsInvalid
from consumer.sections import HealthSettings
from tests.services.process import free_port, wait_until

LARGE_BYTES = 24_000_000
"""More than all buffers between the server and a reader that does not read."""


@pytest.fixture
def log() -> Iterator[StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure(stream := StringIO())
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_visits, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(http_visits, "ANSWER_SECONDS", 0.6)


@asynccontextmanager
async def served(host: str = "127.0.0.1") -> AsyncIterator[int]:
    async def ok(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * LARGE_BYTES)

    async def slow(_request: web.Request) -> web.Response:
        await asyncio.sleep(0.4)
        return web.Response(text="slow\n")

    async def broken(_request: web.Request) -> web.Response:
        raise RuntimeError("a bug")

    app = web.Application()
    app.router.add_get("/livez", ok)
    app.router.add_get("/metrics", large)
    app.router.add_get("/slow", slow)
    app.router.add_get("/broken", broken)
    port = free_port()
    async with listening(HealthSettings(host=host, port=port), app):
        yield port


async def asked(port: int, path: str = "/livez", host: str = "127.0.0.1") -> int:
    timeout = aiohttp.ClientTimeout(total=10)
    address = f"[{host}]" if ":" in host else host
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"http://{address}:{port}{path}") as got:
        await got.read()
        return got.status


async def sent(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


def descriptors() -> int:
    """That this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    "half", [b"", b"G", b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"GET /livez HTTP/1.1\r\nX: " + b"a" * 1000]
)
@pytest.mark.usefixtures("quick")
async def test_who_does_not_finish_a_request_is_let_go_after_seconds(half: bytes) -> None:
    async with served() as port:
        reader, writer = await sent(port, half)
        began = time.monotonic()
        assert await until_closed(reader) == b""
        assert time.monotonic() - began < 5
        writer.close()


@pytest.mark.usefixtures("quick")
async def test_who_drips_a_request_is_let_go_as_well() -> None:
    async with served() as port:
        reader, writer = await sent(port, b"GET /livez HTTP/1.1\r\n")
        closed = asyncio.create_task(until_closed(reader))
        began = time.monotonic()
        while not closed.done():
            assert time.monotonic() - began < 5
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.05)
        writer.close()


@pytest.mark.usefixtures("quick")
async def test_who_does_not_read_the_answer_is_let_go() -> None:
    async with served() as port:
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            before = descriptors()
            await asyncio.to_thread(stranger.sendall, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await wait_until(lambda: descriptors() == before + 1, "it is taken in")
            await wait_until(lambda: descriptors() == before, "it is let go")
            stranger.settimeout(10)
            read = 0
            with ExitStack() as end:
                end.enter_context(pytest.raises(ConnectionError))
                while chunk := await asyncio.to_thread(stranger.recv, 1_000_000):
                    read += len(chunk)
                raise ConnectionError("closed")
            assert read < LARGE_BYTES


@pytest.mark.usefixtures("quick")
async def test_an_answer_may_take_longer_than_a_request() -> None:
    async with served() as port:
        assert await asked(port, "/slow") == 200


async def test_a_connection_is_one_request() -> None:
    async with served() as port:
        reader, writer = await sent(port, 2 * b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await until_closed(reader)
        assert answer.count(b"HTTP/1.1 200") == 1
        assert b"Connection: close" in answer
        writer.close()
        assert await asked(port, "/not-there") == 404


async def test_strangers_that_hold_half_a_request_keep_nobody_from_an_answer() -> None:
    async with served() as port:
        count = 10 * http_visits.MOST_VISITS
        strangers = [await sent(port, b"GET /livez HTTP/1.1\r\n") for _ in range(count)]
        for _ in range(20):
            assert await asked(port) == 200
        let_go = sum(reader.at_eof() or reader.exception() is not None for reader, _ in strangers)
        assert let_go >= count - http_visits.MOST_VISITS
        for _, writer in strangers:
            writer.close()


async def test_strangers_that_do_not_read_keep_nobody_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_visits, "MOST_VISITS", 10)
    async with served() as port:
        strangers = [await sent(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(20)]
        for _ in range(20):
            assert await asked(port) == 200
        for _, writer in strangers:
            writer.transport.abort()


async def test_one_that_has_asked_is_not_put_out_for_those_that_have_not() -> None:
    async with served() as port:
        answer = asyncio.create_task(asked(port, "/slow"))
        await asyncio.sleep(0.1)
        strangers = [await sent(port, b"G") for _ in range(2 * http_visits.MOST_VISITS)]
        assert await answer == 200
        for _, writer in strangers:
            writer.close()


@pytest.mark.parametrize(
    "law",
    [
        test_who_drips_a_request_is_let_go_as_well,
        test_who_does_not_read_the_answer_is_let_go,
        test_an_answer_may_take_longer_than_a_request,
        test_a_connection_is_one_request,
        test_strangers_that_hold_half_a_request_keep_nobody_from_an_answer,
    ],
)
@pytest.mark.usefixtures("quick")
def test_the_same_holds_on_the_workers_own_loop(law: Callable[[], Coroutine[None, None, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(law())


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    b"nonsense\r\n\r\n",
    b"GET / HTTP/9.9.9\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"POST /livez HTTP/1.1\r\nContent-Length: 10\r\n\r\n1",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /%ff%00 HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET /livez HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % number for number in range(1000)) + b"\r\n",
    b"GET /livez HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n" + b"\x00" * 100,
    b"CONNECT x:443 HTTP/1.1\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nAccept: \x01\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


async def test_what_is_not_http_costs_one_line_a_minute_and_no_trace(log: StringIO) -> None:
    async with served() as port:
        for data in 5 * MALFORMED:
            reader, writer = await sent(port, data)
            writer.write_eof()
            await until_closed(reader)
            writer.close()
        assert await asked(port) == 200
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert "Traceback" not in log.getvalue()
    assert [line["level"] for line in lines] == ["warning"], lines
    assert "not a request in HTTP" in lines[0]["event"]


async def test_a_failure_of_ours_is_logged_with_its_trace(log: StringIO) -> None:
    async with served() as port:
        _, writer = await sent(port, b"nonsense\r\n\r\n")
        assert await asked(port, "/broken") == 500
        writer.close()
    [failure] = [line for line in map(json.loads, log.getvalue().splitlines()) if line["level"] == "error"]
    assert "RuntimeError: a bug" in failure["exception"]


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def test_by_default_every_address_of_both_families_is_answered() -> None:
    async with served(HealthSettings().host) as port:
        assert await asked(port) == 200
        if has_ipv6():
            assert await asked(port, host="::1") == 200


@pytest.mark.parametrize("errno", http_server._NO_IPV6)
async def test_without_ipv6_every_address_is_those_of_ipv4(monkeypatch: pytest.MonkeyPatch, errno: int) -> None:
    create = socket.create_server

    def without_ipv6(address: tuple[str, int], **options: object) -> socket.socket:
        if options.get("family") == socket.AF_INET6:
            raise OSError(errno, "no IPv6")
        return create(address, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    for host in ("::", "localhost"):
        async with served(host) as port:
            assert await asked(port) == 200


@pytest.mark.parametrize("host", ["::", "0.0.0.0", "127.0.0.1"])
async def test_a_port_that_is_taken_is_refused_by_name(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = HealthSettings(host=host, port=taken.getsockname()[1])
        with pytest.raises(SettingsInvalid, match=r"health\.port"):
            async with listening(settings, web.Application()):
                pass


async def test_the_socket_of_a_worker_that_was_killed_is_taken_over(tmp_path) -> None:
    path = tmp_path / "worker.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with listening(HealthSettings(unix_socket=str(path)), web.Application()):
        await wait_until(path.exists, "it listens")
