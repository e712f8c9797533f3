"""What cannot be meant is refused when the settings are read, with the fix."""

import pytest

from consumer.errors import SettingsInvalid
from consumer.settings import load_settings
from producer_tools.connections.worker_settings import kafka_security

SCRAM = {"protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "username": "worker", "password": "hidden"}
TOKENS = {"protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


def load(**security: object) -> object:
    scripted = {"engine.kind": "scripted"}
    return load_settings(scripted | {f"kafka.security.{name}": value for name, value in security.items()})


@pytest.mark.parametrize(
    ("security", "says"),
    [
        ({"protocol": "sasl"}, "write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ({"protocol": "SASL_SSL"}, "sasl_mechanism is not set: set it to PLAIN, SCRAM-SHA-256"),
        (SCRAM | {"protocol": "SSL"}, "sasl_mechanism, username, password would not be used: set protocol to SASL_SSL"),
        (SCRAM | {"username": None}, "set username, and either password_file or password"),
        (SCRAM | {"password": ""}, "set username, and either password_file or password"),
        (SCRAM | {"password_file": "/secret"}, "password and password_file are both set"),
        (SCRAM | {"token_provider": "a:b"}, "token_provider and sasl_extensions are not used"),
        (TOKENS, "set either token_endpoint or token_provider"),
        (TOKENS | {"token_endpoint": "https://a"}, "the client's id and secret"),
        (TOKENS | {"token_provider": "a:b", "sasl_extensions": "logicalCluster"}, "write NAME=VALUE"),
        ({"protocol": "SSL", "key_file": "key.pem"}, "certificate_file is not"),
        ({"ca_file": "ca.pem"}, "which does not encrypt"),
    ],
)
def test_a_combination_that_cannot_work_is_refused(security: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsInvalid) as refusal:
        load(**security)
    assert says in str(refusal.value)
    assert str(refusal.value).startswith("kafka.security")
    assert "hidden" not in str(refusal.value)


def test_no_secret_is_shown_where_settings_are() -> None:
    assert "hidden" not in repr(load(**SCRAM))


def test_the_tools_read_the_worker_s_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS", "kafka:9093")
    for name, value in SCRAM.items():
        monkeypatch.setenv(f"SCORESTREAM_KAFKA__SECURITY__{name.upper()}", value)
    assert kafka_security().model_dump(exclude_defaults=True) == load(**SCRAM).kafka.security.model_dump(
        exclude_defaults=True
    )
    monkeypatch.setenv("SCORESTREAM_KAFKA__SECURITY__USERNAM", "worker")
    with pytest.raises(ValueError, match=r"kafka\.security\.usernam"):
        kafka_security()
