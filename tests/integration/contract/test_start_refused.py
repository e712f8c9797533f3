"""What cannot work is refused before the group is joined: exit code 2, and a text that names the fault and the fix."""

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from aiokafka.admin import AIOKafkaAdminClient

from tests.integration.contract.deployment import make_topics, settings_on
from tests.integration.contract.outside import redis_cli
from tests.services.kafka import KafkaNode, create_topics
from tests.services.process import free_port
from tests.services.redis import RedisNode
from tests.services.worker import WorkerProcess

VLLM = {"engine.kind": "vllm"}
LLAMA_SIZES = {"max_position_embeddings": 512, "vocab_size": 100, "hidden_size": 8}
ENDS_WITHIN_SECONDS = 40.0


@dataclass(frozen=True)
class Impossible:
    """`settings` replace those of a worker that would start; `says`: the fault and the fix.

    `BASE` in both stands for what the topics' names begin with, `PORT` for a port where nobody listens, `FOLDER` for a
    folder with a model that can do nothing.
    """

    name: str
    says: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


IMPOSSIBLE = [
    Impossible(
        "the broker does not answer",
        ("kafka.broker", "127.0.0.1:PORT", "kafka.bootstrap_servers"),
        {"kafka.bootstrap_servers": "127.0.0.1:PORT"},
    ),
    Impossible(
        "the broker's name does not resolve",
        ("no-such-broker.invalid", "resolve"),
        {"kafka.bootstrap_servers": "no-such-broker.invalid:9092"},
    ),
    Impossible(
        "Redis does not answer",
        ("redis.server", "127.0.0.1:PORT", "redis.url"),
        {"redis.url": "redis://127.0.0.1:PORT/0"},
    ),
    Impossible(
        "SASL without a mechanism",
        ("kafka.security: protocol is SASL_SSL", "set it to PLAIN, SCRAM-SHA-256"),
        {"kafka.security.protocol": "SASL_SSL"},
    ),
    Impossible(
        "an authority's file that is not there",
        ("redis.security: /no/such/ca.pem: No such file", "docs/secure.md"),
        {"redis.url": "rediss://127.0.0.1:PORT", "redis.security.ca_file": "/no/such/ca.pem"},
    ),
    Impossible(
        "no request topic",
        ("BASE.nowhere", "kafka-topics.sh", "--create"),
        {"kafka.request_topic": "BASE.nowhere"},
    ),
    Impossible(
        "no dead-letter topic",
        ("BASE.nowhere", "--create", "--partitions 4"),
        {"kafka.dead_letter_topic": "BASE.nowhere"},
    ),
    Impossible(
        "too few result partitions",
        ("has 2 partitions", "--alter", "--partitions 4"),
        {"kafka.result_topic": "BASE.few"},
    ),
    Impossible(
        "a compacted request topic",
        ("kafka.request_topic.cleanup_policy", "compact", "kafka-configs.sh", "cleanup.policy=delete"),
        {"kafka.request_topic": "BASE.compacted"},
    ),
    Impossible(
        "a request topic that compacts and deletes",
        ("kafka.request_topic.cleanup_policy", "compact,delete", "cleanup.policy=delete"),
        {"kafka.request_topic": "BASE.both"},
    ),
    Impossible(
        "a compacted results topic",
        ("compact", "cleanup.policy=delete"),
        {"kafka.result_topic": "BASE.compacted"},
    ),
    Impossible(
        "a compacted dead-letter topic",
        ("compact", "cleanup.policy=delete"),
        {"kafka.dead_letter_topic": "BASE.compacted"},
    ),
    Impossible(
        "one topic for two purposes",
        ("kafka.result_topic", "three different topics"),
        {"kafka.result_topic": "BASE.requests"},
    ),
    Impossible(
        "another owner's key prefix",
        ("BASE.taken:", "somebody/else", "redis.prefix", "redis-cli DEL scorestream:owner:BASE.taken:"),
        {"redis.prefix": "BASE.taken:"},
    ),
    Impossible(
        "a key prefix that begins with another owner's",
        ("BASE.taken:v2: begins with BASE.taken:", "somebody/else", "nor is the beginning of it"),
        {"redis.prefix": "BASE.taken:v2:"},
    ),
    Impossible(
        "a key prefix under which an id is the key of a claim",
        ("redis.prefix: under 'scorestream:'", "set one that neither begins with scorestream:"),
        {"redis.prefix": "scorestream:"},
    ),
    Impossible("no key prefix", ("redis.prefix: under ''", "as score:"), {"redis.prefix": ""}),
    Impossible(
        "a database of Redis by name",
        ("redis.url: the URL's path is /cache", "a database is a number"),
        {"redis.url": "redis://127.0.0.1:PORT/cache"},
    ),
    Impossible(
        "heartbeats too rare",
        ("kafka.heartbeat_interval_seconds is 20", "at most"),
        {"kafka.heartbeat_interval_seconds": 20},
    ),
    Impossible(
        "requests shorter than a rebalance",
        ("kafka.request_timeout_seconds is 10", "at least"),
        {"kafka.request_timeout_seconds": 10},
    ),
    Impossible(
        "a session that the broker forbids",
        ("kafka.session_timeout", "the broker allows 6 to"),
        {"kafka.session_timeout_seconds": 3, "kafka.heartbeat_interval_seconds": 1},
    ),
    Impossible("an unknown setting in a section", ("kafka.gruop_id",), {"kafka.gruop_id": "x"}),
    Impossible(
        "a setting with one underscore",
        ("SCORESTREAM_KAFKA_GROUP_ID", "SCORESTREAM_KAFKA__GROUP_ID"),
        environment={"SCORESTREAM_KAFKA_GROUP_ID": "ranking"},
    ),
    Impossible(
        "an unknown section in the environment",
        ("SCORESTREAM_KAFAK__GROUP_ID",),
        environment={"SCORESTREAM_KAFAK__GROUP_ID": "ranking"},
    ),
    Impossible("no model", ("engine.model is empty",), VLLM),
    Impossible("a model folder that is not there", ("/no/such/model",), VLLM | {"engine.model": "/no/such/model"}),
    Impossible(
        "a model that can do nothing",
        ("nothing says how this LlamaForCausalLM scores", "set engine.reranker.template"),
        VLLM | {"engine.model": "FOLDER"},
    ),
    Impossible(
        "a YAML file with an unknown setting",
        ("kafka.topic_of_requests",),
        environment={"SCORESTREAM_CONFIG": "FOLDER/unknown.yaml"},
    ),
    Impossible(
        "a YAML file with an unknown section",
        ("kafak",),
        environment={"SCORESTREAM_CONFIG": "FOLDER/section.yaml"},
    ),
    Impossible(
        "a YAML file that is not there",
        ("/no/such.yaml",),
        environment={"SCORESTREAM_CONFIG": "/no/such.yaml"},
    ),
]


@dataclass(frozen=True)
class Attempts:
    """All of them have tried to start: exit code and output of each, by its name; `filled` fills in the places."""

    kafka: KafkaNode
    base: str
    filled: Callable[[object], str]
    ended: Mapping[str, tuple[int, str]]


@pytest_asyncio.fixture(scope="module")
async def attempts(kafka: KafkaNode, redis: RedisNode, tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    base = await make_topics(kafka, "refused")
    await create_topics(kafka.bootstrap_servers, {f"{base}.few": 2})
    await create_topics(kafka.bootstrap_servers, {f"{base}.compacted": 4}, {"cleanup.policy": "compact"})
    await create_topics(kafka.bootstrap_servers, {f"{base}.both": 4}, {"cleanup.policy": "compact,delete"})
    await redis_cli(redis, "HSET", "scorestream:prefixes", f"{base}.taken:", "1 1 somebody/else")
    folder = tmp_path_factory.mktemp("refused")
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **LLAMA_SIZES}))
    (folder / "unknown.yaml").write_text("kafka:\n  topic_of_requests: x\n")
    (folder / "section.yaml").write_text("kafak:\n  group_id: x\n")
    places = {"BASE": base, "PORT": str(free_port()), "FOLDER": str(folder)}

    def filled(text: object) -> str:
        return re.sub("BASE|PORT|FOLDER", lambda found: places[found[0]], str(text))

    def worker(row: Impossible) -> WorkerProcess:
        settings = settings_on(kafka, redis, base) | dict(row.settings)
        with pytest.MonkeyPatch.context() as environment:
            for name, value in row.environment.items():
                environment.setenv(name, filled(value))
            return WorkerProcess(folder, {path: filled(value) for path, value in settings.items()})

    workers = {row.name: worker(row) for row in IMPOSSIBLE}
    return Attempts(kafka, base, filled, await ends_of(workers))


async def ends_of(workers: Mapping[str, WorkerProcess]) -> dict[str, tuple[int, str]]:
    """Start all, a few at a time; exit code and output of each. One that does not end is killed."""
    few_at_a_time = asyncio.Semaphore(3)

    async def end_of(worker: WorkerProcess) -> tuple[int, str]:
        async with few_at_a_time:
            worker.spawn()
            with suppress(subprocess.TimeoutExpired):
                await worker.wait(ENDS_WITHIN_SECONDS)
            if worker.exit_code is None:
                worker.send(signal.SIGKILL)
            return await worker.wait(), worker.tail()

    return dict(zip(workers, await asyncio.gather(*map(end_of, workers.values())), strict=True))


@pytest.mark.parametrize("row", IMPOSSIBLE, ids=lambda row: row.name)
async def test_a_start_that_cannot_work_is_refused(attempts: Attempts, row: Impossible) -> None:
    code, output = attempts.ended[row.name]
    assert code == 2, output
    for words in row.says:
        assert attempts.filled(words) in output
    assert "Traceback" not in output


async def test_nobody_had_joined_the_group(attempts: Attempts) -> None:
    """After all of them tried, and were refused, the group does not even exist."""
    admin = AIOKafkaAdminClient(bootstrap_servers=attempts.kafka.bootstrap_servers)
    await admin.start()
    try:
        groups = [group for group, _ in await admin.list_consumer_groups()]
    finally:
        await admin.close()
    assert f"{attempts.base}.group" not in groups
