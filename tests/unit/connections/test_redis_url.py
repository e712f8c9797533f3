"""URLs of Redis: what is meant is read, what is not clear is refused, and no message holds a piece of a password."""

import pytest

from consumer.errors import SettingsInvalid
from consumer.settings import load_settings
from producer_tools.connections.files import Unusable
from producer_tools.connections.redis import RedisServer
from producer_tools.connections.redis_url import RedisUrl


@pytest.mark.parametrize(
    ("url", "place", "database", "options"),
    [
        ("redis://h", "h:6379", 0, {}),
        ("redis://h:1/", "h:1", 0, {}),
        ("redis://h/3", "h:6379", 3, {}),
        ("redis://h?db=3", "h:6379", 3, {}),
        ("rediss://h:1/3?db=3&protocol=2&client_name=me", "h:1", 3, {"client_name": "me"}),
        ("redis://[::1]:7/1", "[::1]:7", 1, {}),
        ("redis://u:p@h", "h:6379", 0, {"username": "u", "password": "p"}),
        ("redis://:a@b@h", "h:6379", 0, {"password": "a@b"}),
        ("redis://:a%40b%2Fc@h", "h:6379", 0, {"password": "a@b/c"}),
        ("redis://h?password=a@b", "h:6379", 0, {"password": "a@b"}),
        ("unix:///run/r@dis.sock?db=2", "/run/r@dis.sock", 2, {}),
        ("unix://u:p@/run/redis.sock", "/run/redis.sock", 0, {"username": "u", "password": "p"}),
        ("redis+sentinel://a,b:1/service/2?sentinel_password=x@y", "a:26379,b:1", 2, {}),
        ("redis+cluster://p:q@a,b:1/0", "a:6379,b:1", 0, {"username": "p", "password": "q"}),
    ],
)
def test_what_is_meant_is_read(url: str, place: str, database: int, options: dict[str, object]) -> None:
    read = RedisUrl.read(url)
    assert (read.place, read.database, read.options) == (place, database, options)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://h/cache", "path is /cache: a database is a number"),
        ("redis://h/0/1", "path is /0/1: a database is a number"),
        ("redis://h/-1", "a database is a number"),
        ("redis://h/\u0663", "a database is a number"),
        ("redis://h/1?db=2", "leave one out"),
        ("redis://h?db=-1", "below 0"),
        ("redis://h?db=x", "db is not a number"),
        ("redis+sentinel://h/service/cache", "path is /cache: a database is a number"),
        ("redis+sentinel://h/service/0/1", "a database is a number"),
        ("redis+cluster://h/cache", "a database is a number"),
        ("redis+cluster://h/1", "number 0 only"),
        ("redis://h:99999", "1 to 65535"),
        ("redis://h:x", "1 to 65535"),
        ("redis://a:1,b:2", "several hosts"),
        ("unix://", "names no socket"),
        ("http://x", "is no address of a Redis: begin it with redis:"),
        ("redis://h?protocol=3", "RESP2 is spoken"),
        ("redis://h?socket_timeout=5", "redis.timeout_seconds"),
        ("redis://h?decode_responses=1", "has decode_responses, which is not one of"),
        ("redis://h?sentinel_password=x", "has sentinel_password"),
        ("rediss://h?ssl_cert_reqs=none", "redis.security instead"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_settings(url: str, says: str) -> None:
    with pytest.raises(Unusable, match=says):
        RedisUrl.read(url)
    with pytest.raises(SettingsInvalid, match=rf"^redis\.url: .*{says}"):
        load_settings({"engine.kind": "scripted", "redis.url": url})


@pytest.mark.parametrize("character", "@/?#:[]%&=,+\u2100")
@pytest.mark.parametrize("kind", ["redis", "rediss", "unix", "redis+sentinel", "redis+cluster"])
@pytest.mark.parametrize("user", ["", "user"])
def test_no_character_of_a_password_brings_a_piece_of_it_to_light(character: str, kind: str, user: str) -> None:
    """Not percent-encoded, it may end the host early, and the rest look like a host, a port, a path or an option."""
    pieces = ("s3cr", "p13ce", "w0rd")
    path = {"unix": "/run/redis.sock", "redis+sentinel": "/service/0"}.get(kind, "/0")
    for password in (character.join(pieces), f"{character}@".join(pieces), f"@{character}".join(pieces)):
        url = f"{kind}://{user}:{password}@host{path}"
        try:
            read = RedisUrl.read(url)
            told = f"{read.place} {read!r} {RedisServer(url)!r}"
        except Unusable as unusable:
            told = f"{unusable} {unusable.__cause__}"
        assert not [piece for piece in pieces if piece in told], told
