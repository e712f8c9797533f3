"""Certificates, passwords and tokens that are replaced while clients live."""

import asyncio
import base64
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event

import pytest
import pytest_asyncio

from producer_tools.connections import tokens as connection_tokens
from producer_tools.connections.files import Unusable
from producer_tools.connections.passwords import password_of
from producer_tools.connections.settings import KafkaSecurity, SecurityProtocol
from producer_tools.connections.tls import RenewedContext
from producer_tools.connections.tokens import Tokens, TokenUnavailable
from tests.services.certificates import Authority, SignedFiles
from tests.services.process import wait_until


class Server:
    """By TLS; tells who last came, and can be given another certificate."""

    def __init__(self, authority: Authority) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(authority.ca_file)
        self.show(authority.sign("server", ("localhost",)))
        self.port = 0

    def show(self, own: SignedFiles) -> None:
        self.context.load_cert_chain(own.certificate_file, own.key_file)

    async def name_of(self, client: ssl.SSLContext) -> str:
        """The subject under which a new connection comes. Raises ssl.SSLError."""
        reader, writer = await asyncio.open_connection("localhost", self.port, ssl=client)
        name = await reader.readline()
        writer.close()
        return name.decode().strip()

    async def answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert")
        writer.write(f"{certificate['subject'][0][0][1]}\n".encode())
        await writer.drain()
        writer.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest_asyncio.fixture
async def server(authority: Authority) -> AsyncIterator[Server]:
    server = Server(authority)
    listening = await asyncio.start_server(server.answer, "localhost", ssl=server.context)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


@pytest.fixture
def mounted(tmp_path: Path, authority: Authority) -> KafkaSecurity:
    """Files as they are mounted, with the certificate of `first`."""
    security = KafkaSecurity(
        protocol=SecurityProtocol.SSL,
        ca_file=tmp_path / "ca.pem",
        certificate_file=tmp_path / "tls.crt",
        key_file=tmp_path / "tls.key",
    )
    (tmp_path / "ca.pem").write_bytes(authority.ca_file.read_bytes())
    mount(security, authority.sign("first"))
    return security


def mount(security: KafkaSecurity, own: SignedFiles, *, only_the_certificate: bool = False) -> None:
    replaced = [(security.certificate_file, own.certificate_file)]
    if not only_the_certificate:
        replaced.append((security.key_file, own.key_file))
    for place, file in replaced:
        assert place is not None
        fresh = place.with_suffix(".new")
        fresh.write_bytes(file.read_bytes())
        fresh.replace(place)


async def test_a_new_connection_shows_the_certificate_that_is_there_now(
    server: Server, mounted: KafkaSecurity, authority: Authority
) -> None:
    context = RenewedContext(mounted)
    assert await server.name_of(context) == "first"
    second = authority.sign("second")
    mount(mounted, second, only_the_certificate=True)
    assert await server.name_of(context) == "first", "a certificate whose key has not come yet is not shown"
    mount(mounted, second)
    assert await server.name_of(context) == "second"


async def test_an_authority_that_is_not_there_any_more_is_not_trusted_any_more(
    server: Server, mounted: KafkaSecurity, tmp_path: Path
) -> None:
    context = RenewedContext(mounted)
    assert await server.name_of(context) == "first"
    (tmp_path / "ca.pem").write_bytes(Authority(tmp_path / "another").ca_file.read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        await server.name_of(context)


async def test_the_host_is_checked_unless_that_is_given_up(
    server: Server, mounted: KafkaSecurity, authority: Authority
) -> None:
    server.show(authority.sign("server", ("another.example",)))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        await server.name_of(RenewedContext(mounted))
    lax = mounted.model_copy(update={"check_hostname": False})
    assert await server.name_of(RenewedContext(lax)) == "first"


def test_a_password_is_what_its_file_holds_now(tmp_path: Path) -> None:
    file = tmp_path / "password"
    security = KafkaSecurity.model_validate(
        {"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "u", "password_file": file}
    )
    with pytest.raises(Unusable, match="No such file"):
        password_of(security)
    file.write_text("\n")
    with pytest.raises(Unusable, match="is empty"):
        password_of(security)
    file.write_text(" first with spaces \r\n")
    password = password_of(security)
    assert password() == " first with spaces "
    file.unlink()
    assert password() == " first with spaces "
    file.write_text("second")
    assert password() == "second"


class Provider:
    """Gives numbered tokens of that lifetime, or fails."""

    def __init__(self, lifetime_seconds: float) -> None:
        self.lifetime_seconds = lifetime_seconds
        self.asked = 0
        self.fails = False

    def token(self) -> tuple[str, float]:
        self.asked += 1
        if self.fails:
            raise OSError("away")
        return f"token-{self.asked}", 1000 * (time.time() + self.lifetime_seconds)


async def test_all_connections_have_one_token_until_most_of_its_life_is_over() -> None:
    provider = Provider(3600)
    tokens = Tokens(provider.token, {})
    assert await asyncio.gather(*(tokens.token() for _ in range(5))) == ["token-1"] * 5


async def test_a_token_serves_to_its_end_when_there_is_no_other_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now_ms / 1000)
    provider = Provider(100)
    tokens = Tokens(provider.token, {})
    assert await tokens.token() == "token-1"
    provider.fails = True
    now_ms += 90_000
    assert await tokens.token() == "token-1"
    assert provider.asked == 2
    now_ms += 11_000
    with pytest.raises(TokenUnavailable, match="OSError: away"):
        await tokens.token()
    provider.fails = False
    assert await tokens.token() == "token-4"


async def test_a_provider_that_never_returns_costs_one_thread_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go = Event()
    threads: list[threading.Thread] = []

    def hang() -> tuple[str, float]:
        threads.append(threading.current_thread())
        let_go.wait()
        raise SystemExit

    tokens = Tokens(hang, {})
    with monkeypatch.context() as impatient:
        impatient.setattr(connection_tokens, "TOKEN_SECONDS", 0.05)
        with pytest.raises(TokenUnavailable, match=r"no answer in 0\.05 s"):
            await tokens.token()
    for _ in range(3):
        with pytest.raises(TokenUnavailable, match="an earlier call has not returned yet"):
            await tokens.token()
    let_go.set()
    await wait_until(lambda: [one.is_alive() for one in threads] == [False], "the end of the one thread")
    with pytest.raises(TokenUnavailable, match="the provider raised SystemExit"):
        await tokens.token()


async def test_a_provider_that_gives_something_else_is_told_as_such() -> None:
    async def expired() -> tuple[str, float]:
        return "token", time.time()  # seconds, where milliseconds are meant

    def nothing() -> tuple[str, float]:
        return None  # type: ignore[return-value]

    with pytest.raises(TokenUnavailable, match="milliseconds since the epoch"):
        await Tokens(expired, {}).token()
    with pytest.raises(TokenUnavailable, match="TypeError"):
        await Tokens(nothing, {}).token()


NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"exp": NOW - 60}, "exp 1970-01-12T13:45:40Z, which has passed"),
        ({"exp": NOW + 60, "sub": "worker"}, "exp 1970-01-12T13:47:40Z"),
        (
            {"aud": ["kafka"], "iss": "https://login", "scope": "write"},
            'aud ["kafka"], iss "https://login", scope "write"',
        ),
        ({"exp": "soon"}, ""),
        ({"exp": 1e300}, ""),
        (["exp"], ""),
    ],
)
async def test_a_token_tells_when_it_ends_and_for_whom_it_is(
    monkeypatch: pytest.MonkeyPatch, payload: object, told: str
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    body = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    tokens = Tokens(lambda: (f"head.{body}.signature", 1000 * (NOW + 60)), {})
    await tokens.token()
    assert tokens.claims() == told


@pytest.mark.parametrize("opaque", ["opaque", "a.b.c", "a.\u00e9.c", "a..c"])
async def test_an_opaque_token_tells_nothing(opaque: str) -> None:
    tokens = Tokens(lambda: (opaque, 1000 * (time.time() + 60)), {})
    await tokens.token()
    assert tokens.claims() == ""
