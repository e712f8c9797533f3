"""Passwords, from settings or from files that are replaced while the process runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

from producer_tools.connections.files import Renewed, Unusable
from producer_tools.connections.settings import KafkaSecurity, RedisSecurity


@lru_cache
def password_of(security: KafkaSecurity | RedisSecurity) -> Callable[[], str]:
    """What gives the password as it is now; an empty one where there is none. Raises Unusable."""
    if security.password_file is not None:
        return Renewed([security.password_file], partial(_read, security.password_file)).get
    if security.password is not None:
        return security.password.get_secret_value
    return str


def _read(path: Path) -> str:
    """A file's text, without the newline with which editors end it. Raises Unusable."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} cannot be read as text ({error}): it should hold the password") from error
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise Unusable(f"{path} is empty: it should hold the password")
    return password
