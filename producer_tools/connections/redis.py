"""Redis clients by URL: one server, the master that Sentinels name, or a cluster; each encrypted or not.

    redis://host:6379/0              one server; rediss:// encrypts, unix:///path is a socket
    redis+sentinel://host:26379,host:26379/service/0       rediss+sentinel:// encrypts, to the Sentinels too
    redis+cluster://host:6379,host:6379                    rediss+cluster:// encrypts

User and password may stand before the hosts; those of the Sentinels after them: ?sentinel_username=&sentinel_password=.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import Connection, ConnectionPool, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider

from producer_tools.connections.files import Unusable
from producer_tools.connections.passwords import password_of
from producer_tools.connections.redis_url import RedisUrl
from producer_tools.connections.settings import RedisSecurity
from producer_tools.connections.tls import RenewedContext

RedisClient = Redis | RedisCluster

OPEN = RedisSecurity()
"""Nothing beside what stands in the URL."""
_PROTOCOL = 2
"""Every Redis and every proxy speaks RESP2. For RESP3 a client says HELLO, with the password in it, which those before
Redis 6 and some proxies do not know, and their refusal repeats it. Nothing here needs RESP3."""
_USER = "default"
"""Whose password it is that comes without a user. Named, the password is also taken by a server that asks for none."""
_PART_OF_TIMEOUT = 1 / 3
"""What one of several servers may take, so that another can be asked before the time is over."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Where Redis is, and how it is connected to."""

    url: str = field(repr=False)
    security: RedisSecurity = OPEN

    @property
    def place(self) -> str:
        """The URL's hosts, or its socket, without credentials. Raises Unusable."""
        return RedisUrl.read(self.url).place

    def connect(self, timeout_seconds: float) -> RedisClient:
        """A client, which connects when it is first used; retries are the caller's, save those that find a new master.

        `timeout_seconds`: of connecting, and of one answer. Raises Unusable for a URL that is none, or files.
        """
        url = RedisUrl.read(self.url)
        if url.kind == "sentinel":
            return self._of_sentinels(url, timeout_seconds)
        if url.kind == "cluster":
            return self._of_cluster(url, timeout_seconds)
        return self._of_one(url, timeout_seconds)

    def _of_one(self, url: RedisUrl, timeout_seconds: float) -> Redis:
        options = self._options(url) | _timeouts(timeout_seconds)
        tls = self._tls(url)
        if url.socket:
            socket = UnixDomainSocketConnection
            return Redis.from_pool(ConnectionPool(connection_class=socket, path=url.socket, **options))
        kind: type[Connection] = Connection
        if tls is not None:
            kind, options["tls"] = TlsConnection, tls
        ((host, port),) = url.hosts
        return Redis.from_pool(ConnectionPool(connection_class=kind, host=host, port=port, **options))

    def _of_sentinels(self, url: RedisUrl, timeout_seconds: float) -> Redis:
        options = self._options(url) | _timeouts(timeout_seconds)
        asked = _authentication(url.asked) | {"protocol": _PROTOCOL} | _timeouts(timeout_seconds * _PART_OF_TIMEOUT)
        managed: type[Connection] = SentinelManagedConnection
        ask: type[Connection] = Connection
        tls = self._tls(url)
        if tls is not None:
            managed, ask = _TlsSentinelManagedConnection, TlsConnection
            options["tls"] = asked["tls"] = tls
        manager = Sentinel([])  # type: ignore[no-untyped-call]
        manager.sentinels = [
            Redis.from_pool(ConnectionPool(connection_class=ask, host=host, port=port, **asked))
            for host, port in url.hosts
        ]
        pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            url.service, manager, connection_class=managed, **options
        )
        return _OfSentinels(pool, manager)

    def _of_cluster(self, url: RedisUrl, timeout_seconds: float) -> RedisCluster:
        options = self._options(url)
        options.pop("db")
        timeouts = _timeouts(timeout_seconds * _PART_OF_TIMEOUT)
        # The second try is the one that asks the cluster anew who has what.
        timeouts["retry"] = Retry(NoBackoff(), 1)
        nodes = [ClusterNode(host, port) for host, port in url.hosts]
        tls = self._tls(url)
        if tls is None:
            return RedisCluster(startup_nodes=nodes, **options, **timeouts)
        return _TlsCluster(tls, startup_nodes=nodes, **options, **timeouts)

    def _options(self, url: RedisUrl) -> dict[str, Any]:
        """Of each connection, with this server's credentials."""
        options = {**url.options, "db": url.database, "protocol": _PROTOCOL}
        security = self.security
        if security.username or security.password or security.password_file:
            if "password" in options or "username" in options:
                raise Unusable("the URL has credentials, and redis.security too: leave one out")
            return {**options, "credential_provider": _Credentials(security)}
        return options | _authentication(options)

    def _tls(self, url: RedisUrl) -> RenewedContext | None:
        if not url.encrypted and (self.security.ca_file or self.security.certificate_file):
            raise Unusable(
                "redis.security names certificates, and the URL does not encrypt: write rediss in place of redis"
            )
        return RenewedContext(self.security) if url.encrypted else None


class TlsConnection(Connection):
    """redis-py's own makes a context once and keeps it; this one's follows its files."""

    def __init__(self, *, tls: RenewedContext, **options: Any) -> None:
        super().__init__(**options)
        self._tls = tls

    def _connection_arguments(self) -> dict[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._tls}


class _TlsSentinelManagedConnection(SentinelManagedConnection, TlsConnection):
    """To whom the Sentinels name."""


class _TlsCluster(RedisCluster):
    """Its nodes are connected to by our kind of connection, which redis-py has no parameter for."""

    def __init__(self, tls: RenewedContext, **options: Any) -> None:
        super().__init__(**options)
        self.connection_kwargs |= {"connection_class": TlsConnection, "tls": tls}
        for node in self.startup_nodes:
            node.connection_class = TlsConnection
            node.connection_kwargs["tls"] = tls


class _OfSentinels(Redis):
    """The master that the Sentinels name; closes the connections to them too."""

    def __init__(self, pool: SentinelConnectionPool, manager: Sentinel) -> None:
        super().__init__(connection_pool=pool)
        self.auto_close_connection_pool = True
        self._manager = manager

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001 - redis-py's own
        """Of both."""
        await super().aclose(close_connection_pool)
        await self._manager.aclose()


class _Credentials(CredentialProvider):
    """Those of the settings, asked for when a connection is made."""

    def __init__(self, security: RedisSecurity) -> None:
        """Raises Unusable."""
        self._username = security.username or _USER
        self._password = password_of(security)

    def get_credentials(self) -> tuple[str, str]:
        """User and password."""
        return self._username, self._password()

    async def get_credentials_async(self) -> tuple[str, str]:
        """The same: nothing is waited for."""
        return self.get_credentials()


def _authentication(given: Mapping[str, Any]) -> dict[str, Any]:
    """User and password of what is given."""
    if "password" not in given:
        return {name: given[name] for name in given if name == "username"}
    return {"username": given.get("username", _USER), "password": given["password"]}


def _timeouts(timeout_seconds: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
    }
