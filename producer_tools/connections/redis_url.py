"""A URL of Redis, read once and strictly: what it does not say clearly is refused, never guessed.

No message repeats a part of a URL that may be a piece of a password: one with @, / or # in it that is not
percent-encoded ends the host early, and its rest looks like a host, a port or a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from producer_tools.connections.files import Unusable

SCHEMES = "redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster://"
_DEFAULT_PORTS = {"": 6379, "sentinel": 26379, "cluster": 6379}
_UNREADABLE = (
    "the URL cannot be read: in a user or password write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, [ as %5B, "
    "% as %25, or set them in redis.security"
)


def _on(text: str) -> bool:
    return text.lower() not in {"0", "f", "false", "n", "no"}


_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "db": int,
    "protocol": int,
    "username": str,
    "password": str,
    "client_name": str,
    "health_check_interval": int,
    "max_connections": int,
    "socket_keepalive": _on,
}
"""What may stand behind the question mark."""
_OF_SENTINELS: Mapping[str, Callable[[str], Any]] = {"sentinel_username": str, "sentinel_password": str}
_ELSEWHERE = {"timeout": "redis.timeout_seconds", "socket_timeout": "redis.timeout_seconds"}


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """`kind`: sentinel, cluster, or empty for one server. `options`: what is given to each connection, by its name."""

    kind: str
    encrypted: bool
    hosts: tuple[tuple[str, int], ...]
    socket: str | None
    service: str
    database: int
    options: Mapping[str, Any] = field(repr=False)
    asked: Mapping[str, str] = field(repr=False)
    """Credentials for the Sentinels."""

    @property
    def place(self) -> str:
        """The hosts, or the socket."""
        return self.socket or ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts
        )

    @classmethod
    def read(cls, url: str) -> RedisUrl:
        """Raises Unusable."""
        try:
            parts = urlsplit(url)
        except ValueError:
            # Its words repeat what stands before the host.
            raise Unusable(_UNREADABLE) from None
        scheme, _, kind = parts.scheme.partition("+")
        if kind not in _DEFAULT_PORTS or scheme not in ({"redis", "rediss"} if kind else {"redis", "rediss", "unix"}):
            raise Unusable(f"it is no address of a Redis: begin it with {SCHEMES}")
        # The path of a socket may hold one, where nothing stands before it.
        if parts.fragment or ("@" in parts.path and (parts.netloc or scheme != "unix")):
            raise Unusable(_UNREADABLE)
        options = _options(parts, kind)
        path = parts.path.strip("/")
        socket = unquote(parts.path) if scheme == "unix" else None
        service = ""
        if scheme == "unix":
            path = ""
            if not socket or parts.netloc.rpartition("@")[2]:
                raise Unusable("the URL names no socket: write unix:///path/to/redis.sock")
        elif kind == "sentinel":
            service, _, path = path.partition("/")
            if not service:
                raise Unusable("the URL names no service: write redis+sentinel://host:26379,host:26379/SERVICE/0")
        database = _database(path, options.pop("db", None))
        if kind == "cluster" and database:
            raise Unusable("the URL names a database: a cluster has number 0 only")
        asked = {name.removeprefix("sentinel_"): options.pop(name) for name in _OF_SENTINELS if name in options}
        return cls(
            kind=kind,
            encrypted=scheme == "rediss",
            hosts=() if socket else _hosts(parts, kind),
            socket=socket,
            service=unquote(service),
            database=database,
            options=options | _credentials(parts),
            asked=asked,
        )


def _options(parts: SplitResult, kind: str) -> dict[str, Any]:
    """What stands behind the question mark."""
    try:
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise Unusable(_UNREADABLE) from None
    known = {**_OPTIONS, **(_OF_SENTINELS if kind == "sentinel" else {})}
    options: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            # A ? in a password makes the rest of it an option.
            raise Unusable(_UNREADABLE if "@" in parts.query else _unknown(name, known))
        try:
            options[name] = known[name](text)
        except ValueError:
            raise Unusable(f"the URL's {name} is not a number") from None
    protocol = options.pop("protocol", None)
    if protocol not in {None, 2}:
        raise Unusable("the URL asks for a protocol: leave it out; RESP2 is spoken, which every Redis and proxy knows")
    return options


def _unknown(name: str, known: Mapping[str, object]) -> str:
    if name.startswith("ssl_"):
        return f"the URL has {name}: set the files and check_hostname in redis.security instead"
    if name in _ELSEWHERE:
        return f"the URL has {name}: set {_ELSEWHERE[name]} instead"
    return f"the URL has {name}, which is not one of {', '.join(sorted(known))}: leave it out"


def _database(path: str, option: int | None) -> int:
    """Of the path, or of ?db=."""
    if path and not (path.isascii() and path.isdecimal()):
        raise Unusable(f"the URL's path is /{path}: a database is a number, as in redis://host:6379/0")
    number = int(path) if path else None
    if number is not None and option is not None and number != option:
        raise Unusable(f"the URL names database {number} in its path and {option} behind db=: leave one out")
    database = number if number is not None else (option or 0)
    if database < 0:
        raise Unusable("the URL's db is below 0: a database is a number, as in redis://host:6379/0")
    return database


def _hosts(parts: SplitResult, kind: str) -> tuple[tuple[str, int], ...]:
    given = parts.netloc.rpartition("@")[2].split(",")
    if len(given) > 1 and not kind:
        raise Unusable("the URL names several hosts: write redis+sentinel:// or redis+cluster://")
    hosts = []
    for each in given:
        try:
            host = urlsplit(f"//{each}")
            hosts.append((unquote(host.hostname or "localhost"), host.port or _DEFAULT_PORTS[kind]))
        except ValueError:
            raise Unusable("the URL's hosts cannot be read: write host:port, a port being 1 to 65535") from None
    return tuple(hosts)


def _credentials(parts: SplitResult) -> dict[str, str]:
    """Those before the host; they come before what ?username= and ?password= say."""
    given, at, _ = parts.netloc.rpartition("@")
    username, _, password = given.partition(":") if at else ("", "", "")
    return {name: unquote(text) for name, text in (("username", username), ("password", password)) if text}
