"""Why a broker does not let a client in is told as what it is, with its fix."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from consumer.adapters.kafka_writer import KafkaResultWriter
from consumer.errors import DependencyUnavailable, Hindrance
from consumer.records import Message
from consumer.sections import KafkaSettings
from producer_tools.connections import tokens
from producer_tools.connections.refusal import NoToken, why_refused
from producer_tools.connections.settings import KafkaSecurity, SaslMechanism, SecurityProtocol
from tests.services.certificates import Authority
from tests.services.secured_kafka import PASSWORD, USER, SecuredKafka, unsigned_token

SASL_SSL, SASL_PLAINTEXT = SecurityProtocol.SASL_SSL, SecurityProtocol.SASL_PLAINTEXT
SSL, PLAINTEXT = SecurityProtocol.SSL, SecurityProtocol.PLAINTEXT
BY_PASSWORD = {"sasl_mechanism": "SCRAM-SHA-512", "username": USER, "password": PASSWORD}
HERE = "tests.integration.secure.test_refusals"


def good_token() -> tuple[str, float]:
    return unsigned_token()


def expired_token() -> tuple[str, float]:
    """Its provider says that it is not."""
    return unsigned_token(lifetime_seconds=-60)[0], unsigned_token()[1]


def no_token() -> tuple[str, float]:
    raise RuntimeError("the identity provider is away")


async def silent_token() -> tuple[str, float]:
    return await asyncio.Future[tuple[str, float]]()


@dataclass(frozen=True)
class Attempt:
    """How a client comes to `listener`; FOLDER/ stands for the test's certificates. `says`: the fault, and the fix."""

    name: str
    listener: SecurityProtocol
    security: dict[str, str]
    says: tuple[str, ...]
    host: str = "localhost"


CA = {"ca_file": "FOLDER/ca.pem"}
BY_TLS = {"protocol": "SSL", **CA}
BY_SCRAM = {"protocol": "SASL_SSL", **CA, **BY_PASSWORD}
BY_TOKEN = {"protocol": "SASL_SSL", **CA, "sasl_mechanism": "OAUTHBEARER"}
BARE = {"protocol": "SASL_PLAINTEXT", **BY_PASSWORD}
ATTEMPTS = [
    Attempt("no TLS on a TLS port", SASL_SSL, {}, ("speaks TLS", "protocol to SSL or SASL_SSL")),
    Attempt("TLS on a port without", PLAINTEXT, BY_TLS, ("does not speak TLS", "to PLAINTEXT or SASL_P")),
    Attempt("no SASL where it is asked for", SASL_PLAINTEXT, {}, ("asks for SASL", "protocol to SASL_PLAINTEXT")),
    Attempt("TLS without SASL", SASL_SSL, BY_TLS, ("asks for SASL", "protocol to SASL_SSL")),
    Attempt("SASL where there is none", PLAINTEXT, BARE, ("has no SASL", "to PLAINTEXT,")),
    Attempt(
        "an unknown authority",
        SASL_SSL,
        {"protocol": "SASL_SSL", **BY_PASSWORD},
        ("not trusted", "set kafka.security.ca_file"),
    ),
    Attempt(
        "the wrong authority",
        SASL_SSL,
        {**BY_SCRAM, "ca_file": "FOLDER/other/ca.pem"},
        ("not trusted", "other/ca.pem did not"),
    ),
    Attempt(
        "a name that the certificate lacks",
        SASL_SSL,
        BY_SCRAM,
        ("not valid for '127.0.0.1'", "a name that stands in the certificate"),
        "127.0.0.1",
    ),
    Attempt(
        "a wrong password",
        SASL_SSL,
        {**BY_SCRAM, "password": "wrong"},
        (f"refuses the user {USER} by SCRAM-SHA-512", "invalid credentials", "username and password_file"),
    ),
    Attempt(
        "a wrong password, plain",
        SASL_SSL,
        {**BY_SCRAM, "sasl_mechanism": "PLAIN", "password": "wrong"},
        (f"refuses the user {USER} by PLAIN", "Invalid username or password"),
    ),
    Attempt(
        "a mechanism that is not offered",
        SASL_PLAINTEXT,
        {**BARE, "sasl_mechanism": "SCRAM-SHA-256"},
        ("does not offer the mechanism SCRAM-SHA-256", "sasl.enabled.mechanisms"),
    ),
    Attempt("no client certificate", SSL, BY_TLS, ("asks for a client's certificate", "certificate_file and key_file")),
    Attempt(
        "a stranger's certificate",
        SSL,
        {**BY_TLS, "certificate_file": "FOLDER/other/stranger.pem"},
        ("does not accept the certificate of", "stranger.pem"),
    ),
    Attempt(
        "an expired certificate",
        SSL,
        {**BY_TLS, "certificate_file": "FOLDER/expired.pem"},
        ("does not accept the certificate of", "in time"),
    ),
    Attempt(
        "a token that is refused",
        SASL_SSL,
        {**BY_TOKEN, "token_provider": f"{HERE}:expired_token"},
        ("refuses the token by OAUTHBEARER", "; the token says of itself: exp 2", ", which has passed", "audience"),
    ),
    Attempt(
        "no token to be had",
        SASL_SSL,
        {**BY_TOKEN, "token_provider": f"{HERE}:no_token"},
        ("no token: RuntimeError: the identity provider is away",),
    ),
    Attempt(
        "a provider that is not there",
        SASL_SSL,
        {**BY_TOKEN, "token_provider": "nowhere:token"},
        ("nowhere:token", "cannot be imported"),
    ),
    Attempt("a file that is not there", SASL_SSL, {**BY_SCRAM, "ca_file": "FOLDER/no.pem"}, ("no.pem: No such file",)),
    Attempt(
        "a file that is no certificate",
        SASL_SSL,
        {**BY_SCRAM, "ca_file": "FOLDER/client.key"},
        ("client.key holds no certificates",),
    ),
    Attempt(
        "another certificate's key",
        SSL,
        {**BY_TLS, "certificate_file": "FOLDER/client.crt", "key_file": "FOLDER/other/stranger.key"},
        ("are not a certificate and its key", "key values mismatch"),
    ),
    Attempt(
        "nobody there", PLAINTEXT, {}, ("nowhere.invalid does not resolve", "names that resolve"), "nowhere.invalid"
    ),
]


@pytest.fixture(scope="module")
def certificates(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, client.*, expired.*, and other/ with another authority's ca.pem and stranger.*"""
    authority = secured_kafka.authority
    authority.sign("client")
    authority.sign("expired", days=-3)
    Authority(authority.ca_file.parent / "other").sign("stranger")
    return authority.ca_file.parent


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
async def test_each_refusal_is_told_as_what_it_is(
    secured_kafka: SecuredKafka, certificates: Path, attempt: Attempt
) -> None:
    security = {name: value.replace("FOLDER", str(certificates)) for name, value in attempt.security.items()}
    address = secured_kafka.address(attempt.listener, attempt.host)
    if attempt.host == "nowhere.invalid":
        address = "nowhere.invalid:9092"
    refusal = await why_refused(address, KafkaSecurity.model_validate(security))
    assert refusal is not None
    assert refusal.found.startswith(f"{address}: ")
    for words in attempt.says:
        assert words in f"{refusal.found}: {refusal.fix}"
    assert PASSWORD not in str(refusal)


async def test_a_provider_that_does_not_answer_is_not_taken_for_a_broker_that_does_not(
    secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKEN_SECONDS", 0.2)
    brokers = secured_kafka.brokers(
        SaslMechanism.OAUTHBEARER, username=None, password=None, token_provider=f"{HERE}:silent_token"
    )
    refusal = await why_refused(brokers.bootstrap_servers, brokers.security)
    assert isinstance(refusal, NoToken)
    assert "no token: TimeoutError: no answer in 0.2 s" in refusal.found


@pytest.mark.parametrize(
    ("mechanism", "credentials", "hindrance", "says"),
    [
        (SaslMechanism.PLAIN, {"password": "wrong"}, Hindrance.AUTHENTICATION_FAILED, f"refuses the user {USER}"),
        (
            SaslMechanism.OAUTHBEARER,
            {"username": None, "password": None, "token_provider": f"{HERE}:no_token"},
            Hindrance.TOKEN_UNAVAILABLE,
            "no token: RuntimeError: the identity provider is away",
        ),
        (
            SaslMechanism.OAUTHBEARER,
            {"username": None, "password": None, "token_provider": f"{HERE}:expired_token"},
            Hindrance.AUTHENTICATION_FAILED,
            "refuses the token",
        ),
    ],
)
async def test_a_write_that_cannot_connect_says_why_and_may_go_again(
    secured_kafka: SecuredKafka,
    mechanism: SaslMechanism,
    credentials: dict[str, str | None],
    hindrance: Hindrance,
    says: str,
) -> None:
    brokers = secured_kafka.brokers(mechanism, **credentials)
    kafka = KafkaSettings(bootstrap_servers=brokers.bootstrap_servers, security=brokers.security)
    writer = KafkaResultWriter(kafka, 1_000_000)
    with pytest.raises(DependencyUnavailable, match=f"score.results: .*{says}") as raised:
        await writer.write(0, [Message(None, b"x", ())])
    assert raised.value.hindrance is hindrance
    await writer.close()


@pytest.mark.parametrize(
    ("listener", "security"),
    [
        (PLAINTEXT, {}),
        (SSL, {**BY_TLS, "certificate_file": "FOLDER/client.crt", "key_file": "FOLDER/client.key"}),
        (SASL_PLAINTEXT, BARE),
        *((SASL_SSL, {**BY_SCRAM, "sasl_mechanism": one}) for one in ("PLAIN", "SCRAM-SHA-256")),
        (SASL_SSL, {**BY_TOKEN, "token_provider": f"{HERE}:good_token"}),
    ],
)
async def test_who_comes_as_the_broker_wants_is_let_in(
    secured_kafka: SecuredKafka, certificates: Path, listener: SecurityProtocol, security: dict[str, str]
) -> None:
    filled = {name: value.replace("FOLDER", str(certificates)) for name, value in security.items()}
    assert await why_refused(secured_kafka.address(listener), KafkaSecurity.model_validate(filled)) is None
