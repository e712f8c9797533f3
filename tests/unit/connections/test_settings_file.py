"""The YAML file of settings: what is read from it by the worker and the tools, and what is refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from consumer.cli import app
from consumer.errors import SettingsInvalid
from consumer.settings import load_settings
from producer_tools.connections.settings import KafkaSecurity
from producer_tools.local.services import Services
from producer_tools.local.worker import service_environment


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.yaml"
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(path))
    return path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"kafka: {a: [}", "settings.yaml, line 1: "),
        (b"- kafka", "settings.yaml holds no sections"),
        (b"\xff\xfe", "settings.yaml is UTF-16"),
        (b"engine: {kind: scripted}\nkafka: {}\nengine: {model: m}", "settings.yaml, line 3: engine stands"),
        (b"kafka: 5", "kafka: "),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_by_worker_and_tools(content: bytes, says: str, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(SettingsInvalid, match=r"settings\.yaml|kafka: ") as refusal:
        load_settings({"engine.kind": "scripted"})
    assert says in str(refusal.value)
    for command in ("config", "replay"):
        ended = CliRunner().invoke(app, [command])
        assert ended.exit_code == 2
        assert says in "".join(ended.output.split("\n"))


def test_on_and_off_need_no_quotes_and_a_section_may_be_empty(file: Path) -> None:
    file.write_text("engine: {kind: scripted}\nworkers: {count: 2, mps: on}\nredis: {notify: off}\nkafka:\n")
    settings = load_settings()
    assert (settings.workers.mps, settings.redis.notify) == ("on", "off")


def test_a_tool_goes_where_its_option_says_else_the_environment_else_the_worker_s_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("redis: {url: 'unix:///no/file'}\nengine: {model: m}\n")

    def asks(*options: str) -> str:
        return CliRunner().invoke(app, ["get", "any", *options]).output

    assert "/no/file" in asks()
    monkeypatch.setenv("SCORESTREAM_REDIS__URL", "unix:///no/environment")
    assert "/no/environment" in asks()
    assert "/no/option" in asks("--redis-url", "unix:///no/option")


@pytest.mark.parametrize("command", ["get", "verify", "bench"])
def test_help_shows_no_password_of_the_file(command: str, file: Path) -> None:
    file.write_text("redis: {url: 'redis://:hunter2@h:6379/0'}\n")
    helped = CliRunner().invoke(app, [command, "--help"])
    assert helped.exit_code == 0
    assert "hunter2" not in helped.output


def test_a_worker_that_a_tool_starts_for_itself_shows_no_credentials_of_the_file_to_the_tool_s_servers(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sasl = "{protocol: SASL_SSL, sasl_mechanism: PLAIN, username: u, password: p, ca_file: /ca}"
    file.write_text(f"engine: {{model: m}}\nkafka: {{bootstrap_servers: far:1, security: {sasl}}}\n")
    for name, value in service_environment(Services(kafka_port=1, redis_port=2)).items():
        monkeypatch.setenv(name, value)
    kafka = load_settings().kafka
    assert (kafka.bootstrap_servers, kafka.security) == ("127.0.0.1:1", KafkaSecurity())
