"""Fixtures that every test can use: real servers, topics, small models.

A server that cannot start fails the test with the reason; it is never a skip.
"""

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
import pytest_asyncio

from tests.services import process
from tests.services.embedded import EmbeddedNode
from tests.services.kafka import KafkaNode, create_topics
from tests.services.redis import RedisNode, redis_server
from tests.services.secured_redis import RedisClusterNodes

# A busy machine is not a defect of the code under test.
hypothesis.settings.register_profile("scorestream", deadline=None)
hypothesis.settings.load_profile("scorestream")

CreateTopics = Callable[..., Awaitable[dict[str, str]]]
MARKED_BY_FIXTURE = ("kafka", "redis")
REDIS_VERSION = 7
"""What any test asks for: TLS, ports of the cluster's bus, read-only key patterns."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a server's fixture carries its marker, so that `-m "not kafka"` needs no care."""
    for item in items:
        for name in MARKED_BY_FIXTURE:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)


def missing(reason: str) -> NoReturn:
    """Skip what cannot run here; in CI, where everything can, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run in which every test was skipped has shown nothing and is not a success."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus != pytest.ExitCode.OK or session.config.option.collectonly or reporter is None:
        return
    if not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest_asyncio.fixture(scope="session")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaNode]:
    """One Apache Kafka for the whole session; a test that breaks it starts its own KafkaNode."""
    node = KafkaNode(tmp_path_factory.mktemp("kafka"))
    await node.start()
    yield node
    await node.kill()


@pytest_asyncio.fixture(scope="session")
async def redis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisNode]:
    """One Redis for the whole session; a test that breaks it starts its own RedisNode."""
    node = RedisNode(tmp_path_factory.mktemp("redis"))
    await node.start()
    yield node
    await node.stop()


@pytest.fixture(scope="session")
def redis_7() -> None:
    """A redis-server that can do what the tests of secured ones and of clusters ask for; see `kcat`."""
    told = subprocess.run([str(redis_server()), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d+)", told)
    assert found, told
    if int(found[1]) < REDIS_VERSION:
        missing(
            f"redis-server is of version {found[1]}, and these tests need {REDIS_VERSION} (apt install redis-server)"
        )


@pytest_asyncio.fixture(scope="session")
async def redis_cluster(redis_7: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisClusterNodes]:
    """One Redis cluster for the whole session."""
    nodes = RedisClusterNodes(tmp_path_factory.mktemp("redis-cluster"))
    await nodes.start()
    yield nodes
    await nodes.stop()


@pytest_asyncio.fixture(scope="session")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedNode]:
    """One noida-db for the whole session: Kafka and Redis protocols, up in a moment."""
    node = EmbeddedNode(tmp_path_factory.mktemp("embedded"))
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def topics(request: pytest.FixtureRequest) -> CreateTopics:
    """`names = await topics(kafka, requests=8, results=8, dead=1)`: new topics, unique to this test.

    Returns the short name -> the topic's name.
    """
    unique = uuid.uuid4().hex[:8]

    async def create(node: KafkaNode | EmbeddedNode, **partitions: int) -> dict[str, str]:
        names = {short: f"{request.node.originalname}.{unique}.{short}"[-200:] for short in partitions}
        await create_topics(node.bootstrap_servers, {names[short]: count for short, count in partitions.items()})
        return names

    return create


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    return process.free_port()


@pytest.fixture(scope="session")
def kcat() -> str:
    """The kcat command. Where it is not installed the test is skipped with the reason, in CI it fails."""
    path = shutil.which("kcat")
    if path:
        return path
    missing("kcat is not installed (Debian, Ubuntu: apt install kcat)")


@pytest.fixture(scope="session")
def minilm_embed() -> Path:
    """Folder of all-MiniLM-L6-v2, an embedder."""
    # Only tests with models need numpy and safetensors.
    from tests.models import minilm  # noqa: PLC0415

    return minilm.minilm_embed()


@pytest.fixture(scope="session")
def minilm_cross_encoder() -> Path:
    """Folder of a cross-encoder with one label."""
    from tests.models import minilm  # noqa: PLC0415

    return minilm.minilm_cross_encoder()


@pytest.fixture(scope="session")
def minilm_classifier() -> Path:
    """Folder of a classifier with three labels."""
    from tests.models import minilm  # noqa: PLC0415

    return minilm.minilm_classifier()
