"""`scorestream check` looks at everything, whatever else is wrong."""

import json

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from consumer import check
from consumer.cli import app
from consumer.settings import Settings, load_settings
from consumer.startup import Finding, KafkaFacts, RedisFacts, TopicFacts, Unreachable

MISSING = "engine.model is empty: name a Hugging Face model or a local folder"


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka in which all is well, and a Redis that is away."""

    async def kafka(_settings: object) -> KafkaFacts:
        topic = TopicFacts(partitions=8, cleanup_policy="delete", max_message_bytes=1_048_588)
        return KafkaFacts("cluster", dict.fromkeys(("score.requests", "score.results", "score.dead"), topic))

    async def redis(_settings: object) -> RedisFacts | Unreachable:
        return Unreachable("127.0.0.1:6379: Connection refused")

    monkeypatch.setattr(check, "read_kafka_facts", kafka)
    monkeypatch.setattr(check, "read_redis_facts", redis)


async def answering_redis(_settings: object) -> RedisFacts:
    return RedisFacts("8.0", None)


async def found(settings: Settings) -> dict[str, Finding]:
    return {finding.name: finding for finding in await check.everything(settings)}


async def test_without_a_model_the_servers_are_looked_at_all_the_same() -> None:
    findings = await found(load_settings())
    assert findings["kafka.request_topic"].ok
    assert {name for name, finding in findings.items() if not finding.ok} == {"redis.server", "model"}
    assert findings["model"].found == MISSING


@pytest.mark.parametrize("model", ["", "scripted", "embedding"])
async def test_the_scripted_engine_has_its_model_whatever_it_is_called(model: str) -> None:
    findings = await found(load_settings({"engine.kind": "scripted", "engine.model": model}))
    assert [name for name, finding in findings.items() if not finding.ok] == ["redis.server"]
    assert findings["model.kind"].ok


@pytest.mark.parametrize("workers", [1, 4])
def test_a_start_without_a_model_is_refused_before_anything_is_loaded(workers: int) -> None:
    refused = CliRunner().invoke(app, ["run", "--workers", str(workers)])
    assert (refused.exit_code, refused.output) == (2, f"settings: {MISSING}\n")


def test_settings_without_a_model_are_shown() -> None:
    shown = CliRunner().invoke(app, ["config"])
    assert shown.exit_code == 0
    assert "model: ''" in shown.output


def scripted(*more: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, ["check", "--set", "engine.kind=scripted", *more])
    return ended.exit_code, ended.stdout, ended.stderr


def test_a_warning_is_printed_as_such_and_lets_a_worker_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "read_redis_facts", answering_redis)
    code, printed, _ = scripted("--set", "workers.count=3")
    assert code == 0
    assert (
        "WARN workers.count: 8 partitions for 3 workers: 2 each, and one more for 2 of them\n     fix: set" in printed
    )
    assert "ok   kafka.broker: " in printed
    assert "FAIL" not in printed


def test_what_keeps_a_worker_from_starting_is_printed_as_failed() -> None:
    code, printed, _ = scripted()
    assert code == 2
    assert "FAIL redis.server: " in printed


@pytest.mark.parametrize(
    ("options", "redis", "code", "level"),
    [
        ((), "answers", 0, "ok"),
        (("--set", "workers.count=3"), "answers", 0, "WARN"),
        (("--set", "workers.count=3"), "is away", 2, "FAIL"),
    ],
)
def test_programs_get_one_document_with_every_finding_and_the_worst_level(
    options: tuple[str, ...], redis: str, code: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if redis == "answers":
        monkeypatch.setattr(check, "read_redis_facts", answering_redis)
    ended, printed, _ = scripted("--json", *options)
    document = json.loads(printed)
    assert (ended, document["level"]) == (code, level)
    assert {finding["level"] for finding in document["findings"]} <= {"ok", "WARN", "FAIL"}
    by_name = {finding["name"]: finding for finding in document["findings"]}
    assert {*by_name} > {"kafka.broker", "redis.server", "model.kind"}
    assert all({*finding} == {"name", "level", "found", "fix"} for finding in document["findings"])
    assert (by_name["redis.server"]["level"] == "FAIL") == (redis == "is away")


@pytest.mark.parametrize("command", ["check", "config"])
def test_programs_get_a_document_of_settings_that_are_refused_too(command: str) -> None:
    ended = CliRunner().invoke(app, [command, "--json", "--set", "health.port=-1"])
    document = json.loads(ended.stdout)
    assert (ended.exit_code, document["level"]) == (2, "FAIL")
    assert "health.port" in ended.stdout


def test_programs_get_the_settings_as_one_document_without_secrets() -> None:
    shown = CliRunner().invoke(app, ["config", "--json", "--set", "redis.url=redis://:hunter2@localhost:6379/0"])
    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["kafka"]["group_id"] == "scorestream"
    assert "hunter2" not in shown.output


def test_a_start_logs_each_warning_by_name_with_its_fix() -> None:
    findings = [
        Finding("a", ok=True, found="fine"),
        Finding("b", ok=True, found="odd", fix="do"),
        Finding("c", ok=False, found="broken", fix="mend"),
    ]
    with capture_logs() as logged:
        check.log_warnings(findings)
    assert logged == [{"event": "check", "log_level": "warning", "name": "b", "found": "odd", "fix": "do"}]
