"""Kinds of values that settings have, and what is refused of each because it can never work."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from producer_tools.connections import redis_url
from producer_tools.connections.files import Unusable

MAX_PORT = 65_535
MAX_UNIX_PATH_BYTES = 107
"""Linux has 108 for a socket's path and the zero after it."""
_HOST = r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s\[\]:/@?#,]+)"
_ADDRESS = re.compile(rf"{_HOST}:([0-9]+)")
_JSON_LIST = re.compile(r'\s*\[\s*"')
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_QUOTED = re.compile(r"""(["']).*\1""")


class Impossible(ValueError):
    """A value that can never work. `found` and `fix` show no secret.

    `setting`: which one it is, where several were looked at together.
    """

    def __init__(self, found: str, fix: str, setting: str = "") -> None:
        super().__init__(f"{found}: {fix}")
        self.found = found
        self.fix = fix
        self.setting = setting


def _text_list(value: object) -> object:
    """A list, or text that means one: `a,b`, or JSON. Environment and command line have only text."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if any(_QUOTED.fullmatch(part) for part in parts):
            raise Impossible("it has quotes and no brackets", 'write a,b or ["a","b"]')
        return parts
    try:
        listed = json.loads(value)
    except json.JSONDecodeError:
        raise Impossible("it begins with [ and is no JSON list", 'write a,b or ["a","b"]') from None
    return listed


def address_list(value: str) -> str:
    """host:port,host:port of such text, or of a list in JSON. Raises Impossible for what is no address."""
    parts = _text_list(value) if _JSON_LIST.match(value) else value.split(",")
    if not isinstance(parts, list) or not all(isinstance(address, str) for address in parts):
        raise Impossible("it is no list of addresses", "write host:port,host:port")
    addresses = [address.strip() for address in parts if address.strip()]
    for address in addresses:
        _check_address(address)
    if not addresses:
        raise Impossible("no address stands there", "write host:port,host:port")
    return ",".join(addresses)


def _addresses(value: object) -> object:
    """The same of a list, too; what is neither is for pydantic to refuse."""
    if isinstance(value, list) and all(isinstance(address, str) for address in value):
        value = json.dumps(value)
    return address_list(value) if isinstance(value, str) else value


def _check_address(address: str) -> None:
    fix = "write host:port,host:port"
    # What stands before an @ may be a password.
    shown = "an address with @ in it" if "@" in address else address
    if "://" in address or "@" in address:
        raise Impossible(f"{shown} is a URL", f"{fix}, without more; kafka.security says the rest")
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise Impossible(f"{shown} is not of the form host:port", f"{fix}, IPv6 as [::1]:9092")
    if not 1 <= int(found[1]) <= MAX_PORT:
        raise Impossible(f"{shown} has a port that there is not", f"take one from 1 to {MAX_PORT}")


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise Impossible(
            "Kafka has no topic of such a name", "write 1 to 249 letters, digits, dots, underscores and hyphens"
        )
    return name


def _web_address(url: str) -> str:
    parts = _split(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Impossible("it is no web address", "write https://host/path")
    if parts.username is not None or parts.password is not None:
        raise Impossible("it has credentials in it", "set username, and password or password_file, instead")
    return url


def _redis_url(url: SecretStr) -> SecretStr:
    """All that can be read of it; whether somebody answers there, the client finds out."""
    try:
        redis_url.RedisUrl.read(url.get_secret_value())
    except Unusable as unusable:
        problem, _, fix = str(unusable).partition(": ")
        raise Impossible(problem, fix or "write it as docs/secure.md has it") from None
    return url


def _split(url: str) -> SplitResult:
    """The parts of a URL. What is wrong with it is said without any of it: a password may be the reason."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        port = 0
    if port is not None and not port:
        raise Impossible(
            f"no host and port from 1 to {MAX_PORT} can be read from it",
            "set one; in a password write / ? # @ : % [ and ] as %2F %3F %23 %40 %3A %25 %5B and %5D",
        )
    return parts


def _listening_host(host: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._-]*", host):
        return host
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        raise Impossible(
            f"{host} is neither an IP address nor a name" if "@" not in host else "it is no address",
            "write one alone, without scheme, port and brackets, as 0.0.0.0 or ::",
        ) from None
    return host


def _unix_path(path: str | None) -> str | None:
    if path is not None and len(path.encode()) > MAX_UNIX_PATH_BYTES:
        raise Impossible(
            f"it has {len(path.encode())} bytes", f"set a path of at most {MAX_UNIX_PATH_BYTES}, more have no room"
        )
    return path


def _model(name: str) -> str:
    if "://" in name:
        raise Impossible(
            "it is a URL", "write the model's name on Hugging Face, as BAAI/bge-reranker-base, or a local folder"
        )
    return name


OptionalText = Annotated[str | None, BeforeValidator(lambda value: None if value == "" else value)]
"""An empty one is as left out."""
Text = Annotated[str, Field(min_length=1)]
"""Which something stands in."""
TextList = Annotated[tuple[Text, ...], NoDecode, BeforeValidator(_text_list)]
"""Of `a,b`, of `["a","b"]`, or of a list in YAML."""
OptionalTextList = Annotated[tuple[Text, ...] | None, NoDecode, BeforeValidator(_text_list)]
Addresses = Annotated[str, BeforeValidator(_addresses)]
"""host:port,host:port; a list is taken as well."""
Topic = Annotated[str, AfterValidator(_topic)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
RedisUrl = Annotated[SecretStr, AfterValidator(_redis_url)]
ListeningHost = Annotated[str, AfterValidator(_listening_host)]
UnixPath = Annotated[OptionalText, AfterValidator(_unix_path)]
Model = Annotated[str, AfterValidator(_model)]
