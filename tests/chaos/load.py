"""Steady requests, good and bad, through whatever happens to the broker."""

import asyncio
import json

from aiokafka.errors import KafkaError

from producer_tools.console import ToolFailure
from producer_tools.kafka import Publisher, open_publisher
from producer_tools.load import OpenLoop

BAD_EVERY = 10
BAD = (
    b'{"ID"',
    b'["ID"]',
    b'{"task":"score","query":"ID","document":"d"}',
    b'{"id":"ID","task":"score","query":"q","document":"d","topn":1}',
    b'{"schema":9,"id":"ID"}',
    b'{"id":"ID","task":"embed","input":"d"}',
    b'{"id":"ID","task":"score","query":"q","document":"d","model":"another"}',
    b'{"id":"ID","task":"score","query":"q","document":"!reject"}',
)
"""Every way to be bad that calls for a dead letter; with and without an id that can be read."""
REOPEN_SECONDS = 0.5


class Load:
    """Publishes until told to stop, round the partitions. What Kafka acknowledged is remembered."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, requests_per_second: float) -> None:
        self.acknowledged: set[bytes] = set()
        """Ids."""
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._requests_per_second = requests_per_second
        self._bad: dict[bytes, bytes] = {}
        self._sent = 0
        self._stopping = False

    @property
    def acknowledged_bad(self) -> set[bytes]:
        """Values that must become dead letters."""
        return {value for name, value in self._bad.items() if name in self.acknowledged}

    @property
    def sent_bad(self) -> set[bytes]:
        """Values that may become dead letters: of some, a broker that died did not say whether it took them."""
        return set(self._bad.values())

    async def run(self) -> None:
        """Until `stop`, and again when called again.

        Everything sent is then acknowledged, or given up as unknown because the broker was gone.
        """
        self._stopping = False
        pace = OpenLoop(self._requests_per_second)
        while not self._stopping:
            try:
                async with open_publisher(self._bootstrap_servers, self._acknowledge) as publisher:
                    await self._publish(publisher, pace)
            except (ToolFailure, KafkaError):
                await asyncio.sleep(REOPEN_SECONDS)

    def stop(self) -> None:
        """Let `run` come to its end."""
        self._stopping = True

    async def _publish(self, publisher: Publisher, pace: OpenLoop) -> None:
        while not self._stopping:
            await pace.due()
            name, value = self._next()
            await publisher.send(self._topic, value, name=name.decode(), partition=self._sent % self._partitions)
        await publisher.flush()

    def _next(self) -> tuple[bytes, bytes]:
        self._sent += 1
        if self._sent % BAD_EVERY:
            name = b"good-%d" % self._sent
            request = {"id": name.decode(), "task": "score", "query": f"query {self._sent}", "document": "some words"}
            return name, json.dumps(request).encode()
        name = b"bad-%d" % self._sent
        self._bad[name] = BAD[self._sent // BAD_EVERY % len(BAD)].replace(b"ID", name)
        return name, self._bad[name]

    def _acknowledge(self, name: str) -> None:
        self.acknowledged.add(name.encode())
