"""A broker and a cache for a demonstration: `noida-db`, one small binary that speaks Kafka's and Redis's protocols."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from producer_tools.console import ToolFailure
from producer_tools.local.processes import Child, running

HOST = "127.0.0.1"
START_SECONDS = 20.0
IDLE_SECONDS = 0.03
"""For readers: this broker (0.2.3) answers an empty fetch at once, and a reader that asks again takes a quarter of a
processor. Latencies measured through it are too long by at most this.
"""


@dataclass(frozen=True, slots=True)
class Services:
    """Where the broker and the cache listen."""

    kafka_port: int
    redis_port: int

    @property
    def bootstrap_servers(self) -> str:
        """For Kafka clients."""
        return f"{HOST}:{self.kafka_port}"

    @property
    def redis_url(self) -> str:
        """For Redis clients."""
        return f"redis://{HOST}:{self.redis_port}/0"


@asynccontextmanager
async def embedded_services(folder: Path) -> AsyncIterator[Services]:
    """Run broker and cache, their data and log in `folder`, until the block ends. Raises ToolFailure."""
    kafka_port, redis_port = _free_ports(2)
    command = [
        str(_binary()), "start", "--data-dir", str(folder / "services"), "--host", HOST, "--only", "kafka,redis",
        "--kafka-port", str(kafka_port), "--redis-port", str(redis_port),
    ]  # fmt: skip
    log = folder / "services.log"
    async with running(
        "embedded broker", command, environment=os.environ, log=log, grace_seconds=5, kind=Child
    ) as child:
        for port in (kafka_port, redis_port):
            await child.while_running(_listening(port))
        yield Services(kafka_port, redis_port)


def _binary() -> Path:
    package = importlib.util.find_spec("noida_db")
    if package is None or package.origin is None:
        raise ToolFailure("the embedded broker is not installed: pip install 'scorestream[demo]'")
    binary = Path(package.origin).with_name("noida-db")
    if not os.access(binary, os.X_OK):
        binary.chmod(0o755)
    return binary


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def _listening(port: int) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection(HOST, port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return
    except TimeoutError:
        raise ToolFailure(f"the embedded broker does not listen on port {port} after {START_SECONDS:g} s") from None
