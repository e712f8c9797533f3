"""Redis as production has it: by TLS with users, behind Sentinels, as a cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from producer_tools.connections.redis import RedisServer
from producer_tools.connections.settings import RedisSecurity
from tests.services.acls import PAGE
from tests.services.certificates import Authority
from tests.services.process import CHECK_EVERY_SECONDS, ServiceFailed, free_port
from tests.services.redis import RedisNode, redis_server

ADMIN_PASSWORD = "admin-secret"
SLOTS = 16384
READY_SECONDS = 30.0


class SecuredRedis(RedisNode):
    """By TLS alone; its certificate is for localhost alone. Whoever has no user of his own is not let in."""

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        self.authority = Authority(folder / "certificates")
        own = self.authority.sign("redis", ("localhost",))
        tls = {
            "port": "0",
            "tls-cert-file": str(own.certificate_file),
            "tls-key-file": str(own.key_file),
            "tls-ca-cert-file": str(self.authority.ca_file),
            "tls-auth-clients": "no",
            "requirepass": ADMIN_PASSWORD,
        }
        super().__init__(folder, tls | dict(options or {}))
        self.options["tls-port"] = str(self.port)

    @property
    def url(self) -> str:
        return f"rediss://localhost:{self.port}/0"

    def server(self, **security: object) -> RedisServer:
        """As this user, with these files."""
        return RedisServer(self.url, RedisSecurity.model_validate({"ca_file": self.authority.ca_file, **security}))

    async def check_ready(self) -> None:
        await self.administer("PING")

    async def administer(self, *command: str) -> object:
        """As the administrator."""
        async with self.server(password=ADMIN_PASSWORD).connect(2.0) as client:
            return await client.execute_command(*command)


def documented_cluster_user(name: str) -> list[str]:
    """The command by which docs/secure.md gives this user what clients of a cluster need."""
    return _documented(f"ACL SETUSER {name} +").split()


def documented_user(name: str, prefix: str, password: str) -> list[str]:
    """The command by which docs/secure.md makes this user, for another prefix and password."""
    return _documented(f"ACL SETUSER {name} on ").replace("PASSWORD", password).replace("score:", prefix).split()


def _documented(beginning: str) -> str:
    for line in PAGE.read_text().splitlines():
        if line.startswith(f"    {beginning}"):
            return line.strip()
    raise ServiceFailed(f"{PAGE} has no command {beginning}...")


class SentinelNode(RedisNode):
    """Watches one master, alone, and takes half a second of silence for its end."""

    name = "Redis Sentinel"

    def __init__(self, folder: Path, service: str, master: RedisNode) -> None:
        super().__init__(folder)
        self._service, self._master = service, master

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        file = self.folder / "sentinel.conf"
        watched = self._service
        lines = [
            f"port {self.port}",
            f"sentinel monitor {watched} 127.0.0.1 {self._master.port} 1",
            f"sentinel down-after-milliseconds {watched} 500",
            f"sentinel failover-timeout {watched} 5000",
        ]
        file.write_text("\n".join(lines) + "\n")
        return [str(redis_server()), str(file), "--sentinel", "--dir", str(self.folder)], super().command()[1]

    async def until_replicas(self, count: int) -> None:
        """Until it knows of so many, without which it has nobody to make master. Raises TimeoutError."""
        async with Redis.from_url(self.url) as client:
            await _until(lambda: client.sentinel_slaves(self._service), lambda replicas: len(replicas) >= count)


class RedisClusterNodes:
    """Three primaries that share all slots, without replicas but those that are added."""

    def __init__(self, folder: Path) -> None:
        options = {"cluster-enabled": "yes", "cluster-node-timeout": "1000", "repl-diskless-sync-delay": "0"}
        self.nodes = [RedisNode(folder / str(number), options) for number in range(3)]
        for node in self.nodes:
            node.options["cluster-port"] = str(free_port())

    @property
    def url(self) -> str:
        """With all of them."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    async def start(self) -> None:
        """Start and wait until every node knows who has what. Raises TimeoutError."""
        for number, node in enumerate(self.nodes):
            await node.start()
            slots = range(number * SLOTS // 3, (number + 1) * SLOTS // 3)
            await _cluster(node, "ADDSLOTS", *slots)
            if number:
                first = self.nodes[0]
                await _cluster(node, "MEET", "127.0.0.1", first.port, first.options["cluster-port"])
        for node in self.nodes:
            await _until(partial(_cluster, node, "INFO"), lambda state: "cluster_state:ok" in str(state))

    async def add_replica(self) -> None:
        """One more node, of the first; returns when it has what that has, and all know it. Raises TimeoutError."""
        first = self.nodes[0]
        replica = RedisNode(first.folder.parent / "replica", first.options | {"cluster-port": str(free_port())})
        await replica.start()
        self.nodes.append(replica)
        await _cluster(replica, "MEET", "127.0.0.1", first.port, first.options["cluster-port"])
        name = str(await _cluster(first, "MYID"), "ascii")
        await _until(partial(_cluster, replica, "NODES"), lambda nodes: name in str(nodes))
        await _cluster(replica, "REPLICATE", name)
        async with Redis.from_url(replica.url) as client:
            await _until(partial(client.info, "replication"), lambda info: info.get("master_link_status") == "up")
        # Those who have not heard of it would not vote for it.
        for node in self.nodes:
            await _until(partial(_cluster, node, "NODES"), lambda nodes: f"slave {name}" in str(nodes))

    async def stop(self) -> None:
        """All of them."""
        for node in self.nodes:
            await node.stop()


async def _cluster(node: RedisNode, *command: object) -> bytes:
    async with Redis.from_url(node.url) as client:
        return await client.execute_command("CLUSTER", *command)  # type: ignore[no-untyped-call,no-any-return]


async def _until(ask: Callable[[], Awaitable[Any]], answered: Callable[[Any], bool]) -> None:
    """Ask until the answer is one that counts. Raises TimeoutError."""
    async with asyncio.timeout(READY_SECONDS):
        while True:
            if answered(await ask()):
                return
            await asyncio.sleep(CHECK_EVERY_SECONDS)
