"""`scorestream check` looks at everything, whatever else is wrong."""

import pytest
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
