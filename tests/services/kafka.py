"""A real Apache Kafka broker for tests."""

import asyncio
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from scripts.kafka import environment, prepare
from scripts.kafka_home import kafka_home
from tests.services.process import CHECK_EVERY_SECONDS, ServerProcess, ServiceFailed, free_port

TOPICS_SECONDS = 30.0


class KafkaNode(ServerProcess):
    """One KRaft broker on 127.0.0.1; `properties` are added to the broker's."""

    name = "Apache Kafka"

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, free_port(count=2))
        self.properties = dict(properties or {})

    @property
    def bootstrap_servers(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        data = self.folder / "data"
        return prepare(data, self.port, self.properties), environment(data)

    async def run_tool(self, name: str, *arguments: str) -> None:
        """One of Kafka's own scripts. Raises ServiceFailed with what it says."""
        ran = await asyncio.to_thread(
            subprocess.run,
            [str(kafka_home() / "bin" / name), "--bootstrap-server", self.bootstrap_servers, *arguments],
            env=environment(self.folder / "tools"),
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise ServiceFailed(f"{name} {' '.join(arguments)}: {ran.stdout}{ran.stderr}")

    async def check_ready(self) -> None:
        await check_metadata(self.bootstrap_servers)


async def check_metadata(bootstrap_servers: str) -> None:
    """Ask for the cluster's metadata. Raises aiokafka.errors.KafkaError while no broker answers."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=4000)
    try:
        await admin.start()
        cluster = await admin.describe_cluster()
    finally:
        await admin.close()
    if not cluster["brokers"]:
        raise ServiceFailed(f"{bootstrap_servers} knows no broker yet")


async def create_topics(
    bootstrap_servers: str, partitions: Mapping[str, int], configs: Mapping[str, str] | None = None
) -> None:
    """Create each topic with so many partitions; returns when all of them have leaders.

    Works on any server that speaks the Kafka protocol. Raises ServiceFailed when it refuses one.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        wanted = [
            NewTopic(name, num_partitions=count, replication_factor=1, topic_configs=dict(configs or {}))
            for name, count in partitions.items()
        ]
        answer = await admin.create_topics(wanted)
        # The client returns refusals, it does not raise them.
        refused = [error for error in answer.topic_errors if error[1] != 0]
        if refused:
            raise ServiceFailed(f"topics refused: {refused}")
        deadline = time.monotonic() + TOPICS_SECONDS
        while not all(has_leaders(topic) for topic in await admin.describe_topics(list(partitions))):
            if time.monotonic() > deadline:
                raise ServiceFailed(f"no leaders within {TOPICS_SECONDS:g} s for {', '.join(partitions)}")
            await asyncio.sleep(CHECK_EVERY_SECONDS)
    finally:
        await admin.close()


def has_leaders(topic: Mapping[str, object]) -> bool:
    """Whether every partition in a topic's metadata has a leader."""
    partitions = topic["partitions"]
    assert isinstance(partitions, list)
    return topic["error_code"] == 0 and all(one["leader"] >= 0 for one in partitions)
