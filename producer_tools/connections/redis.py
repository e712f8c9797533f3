"""Redis clients by URL: one server, the master that Sentinels name, or a cluster; each encrypted or not.

    redis://host:6379/0              one server; rediss:// encrypts, unix:///path is a socket
    redis+sentinel://host:26379,host:26379/service/0       rediss+sentinel:// encrypts, to the Sentinels too
    redis+cluster://host:6379,host:6379                    rediss+cluster:// encrypts

User and password may stand before the hosts; those of the Sentinels after them: ?sentinel_username=&sentinel_password=.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import Connection, ConnectionPool, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider

from producer_tools.connections.files import Unusable
from producer_tools.connections.passwords import password_of
from producer_tools.connections.settings import RedisSecurity
from producer_tools.connections.tls import RenewedContext

RedisClient = Redis | RedisCluster

OPEN = RedisSecurity()
"""Nothing beside what stands in the URL."""
SCHEMES = "redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster"
_DEFAULT_PORTS = {"sentinel": 26379, "cluster": 6379}
_PART_OF_TIMEOUT = 1 / 3
"""What one of several servers may take, so that another can be asked before the time is over."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Where Redis is, and how it is connected to."""

    url: str = field(repr=False)
    security: RedisSecurity = OPEN

    @property
    def place(self) -> str:
        """The URL's hosts, or its socket, without credentials."""
        parts = urlsplit(self.url)
        return parts.netloc.rpartition("@")[2] or parts.path

    def connect(self, timeout_seconds: float) -> RedisClient:
        """A client, which connects when it is first used; retries are the caller's, save those that find a new master.

        `timeout_seconds`: of connecting, and of one answer. Raises Unusable for a URL that is none, or files.
        """
        scheme, _, kind = urlsplit(self.url).scheme.partition("+")
        if kind not in {"", *_DEFAULT_PORTS} or (kind and scheme not in {"redis", "rediss"}):
            raise Unusable(f"the URL's scheme is not one of {SCHEMES}")
        if kind == "sentinel":
            return self._of_sentinels(timeout_seconds)
        if kind == "cluster":
            return self._of_cluster(timeout_seconds)
        return self._of_one(timeout_seconds)

    def _of_one(self, timeout_seconds: float) -> Redis:
        options = self._options(self.url) | _timeouts(timeout_seconds)
        plain = options.pop("connection_class", Connection)
        tls = self._tls()
        if tls is not None:
            plain, options["tls"] = TlsConnection, tls
        return Redis.from_pool(ConnectionPool(connection_class=plain, **options))

    def _of_sentinels(self, timeout_seconds: float) -> Redis:
        service, _, database = urlsplit(self.url).path.strip("/").partition("/")
        if not service:
            raise Unusable("the URL names no service: write redis+sentinel://host:26379,host:26379/SERVICE/0")
        options = self._options(self._of_first_host(database)) | _timeouts(timeout_seconds)
        asked = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
        asked |= _timeouts(timeout_seconds * _PART_OF_TIMEOUT)
        managed: type[Connection] = SentinelManagedConnection
        ask: type[Connection] = Connection
        tls = self._tls()
        if tls is not None:
            managed, ask = _TlsSentinelManagedConnection, TlsConnection
            options["tls"] = asked["tls"] = tls
        manager = Sentinel([])  # type: ignore[no-untyped-call]
        manager.sentinels = [
            Redis.from_pool(ConnectionPool(connection_class=ask, host=host, port=port, **asked))
            for host, port in self._hosts("sentinel")
        ]
        pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            service, manager, connection_class=managed, **options
        )
        return _OfSentinels(pool, manager)

    def _of_cluster(self, timeout_seconds: float) -> RedisCluster:
        options = self._options(self._of_first_host(urlsplit(self.url).path.strip("/")))
        if options.pop("db", 0):
            raise Unusable("the URL names a database: a cluster has number 0 only")
        for name in ("host", "port", "connection_class"):
            options.pop(name, None)
        timeouts = _timeouts(timeout_seconds * _PART_OF_TIMEOUT)
        # The second try is the one that asks the cluster anew who has what.
        timeouts["retry"] = Retry(NoBackoff(), 1)
        nodes = [ClusterNode(host, port) for host, port in self._hosts("cluster")]
        tls = self._tls()
        if tls is None:
            return RedisCluster(startup_nodes=nodes, **options, **timeouts)
        return _TlsCluster(tls, startup_nodes=nodes, **options, **timeouts)

    def _options(self, url: str) -> dict[str, Any]:
        """What stands in a URL of one server, with this server's credentials."""
        try:
            options = cast("dict[str, Any]", dict(parse_url(url)))
        except ValueError as error:
            raise Unusable(str(error)) from error
        if odd := sorted(name for name in options if name.startswith("ssl_")):
            raise Unusable(f"the URL has {', '.join(odd)}: set the files and check_hostname in redis.security instead")
        security = self.security
        if security.username or security.password or security.password_file:
            if "password" in options or "username" in options:
                raise Unusable("the URL has credentials, and redis.security too: leave one out")
            options["credential_provider"] = _Credentials(security)
        return options

    def _of_first_host(self, database: str) -> str:
        """The URL with one host in place of many: for what stands around them."""
        parts = urlsplit(self.url)
        user, at, hosts = parts.netloc.rpartition("@")
        return f"redis://{user}{at}{hosts.split(',')[0]}/{database}?{parts.query}"

    def _hosts(self, kind: str) -> list[tuple[str, int]]:
        netloc = urlsplit(self.url).netloc.rpartition("@")[2]
        try:
            found = [urlsplit(f"//{one}") for one in netloc.split(",")]
            return [(str(one.hostname), one.port or _DEFAULT_PORTS[kind]) for one in found]
        except ValueError as error:
            raise Unusable(f"the URL's hosts are {netloc}: {error}") from error

    def _tls(self) -> RenewedContext | None:
        encrypted = self.url.startswith("rediss")
        if not encrypted and (self.security.ca_file or self.security.certificate_file):
            raise Unusable(
                "redis.security names certificates, and the URL does not encrypt: write rediss in place of redis"
            )
        return RenewedContext(self.security) if encrypted else None


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
        self._username = security.username
        self._password = password_of(security)

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """A password, or a user and one."""
        return (self._username, self._password()) if self._username else (self._password(),)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """The same: nothing is waited for."""
        return self.get_credentials()


def _timeouts(timeout_seconds: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
    }
