"""Steady requests, good and bad, through whatever happens to the broker."""

import asyncio
from collections import deque
from dataclasses import dataclass

from aiokafka.errors import KafkaError

from producer_tools.connections.kafka import Brokers
from producer_tools.console import ToolFailure
from producer_tools.kafka import Publisher, open_publisher
from producer_tools.load import OpenLoop

BAD_EVERY = 10
REOPEN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Mix:
    """What is asked; ID stands for the request's id. Every BAD_EVERYth request is bad, each way in turn.

    Every bad one calls for a dead letter; with and without an id that can be read.
    """

    good: bytes
    bad: tuple[bytes, ...] = ()


BAD = (
    b'{"ID"',
    b'["ID"]',
    b'{"schema":9,"id":"ID"}',
)
"""Bad whatever the engine."""
PAIRS = Mix(
    good=b'{"id":"ID","task":"score","query":"query ID","document":"some words"}',
    bad=(
        *BAD,
        b'{"task":"score","query":"ID","document":"d"}',
        b'{"id":"ID","task":"score","query":"q","document":"d","topn":1}',
        b'{"id":"ID","task":"embed","input":"d"}',
        b'{"id":"ID","task":"score","query":"q","document":"d","model":"another"}',
    ),
)
"""For a reranker."""
SCORES = Mix(
    good=PAIRS.good,
    bad=(
        *PAIRS.bad,
        b'{"id":"ID","task":"score","query":"q","document":"!reject"}',
        b'{"id":"ID","task":"score","query":"q","document":"!nan"}',
    ),
)
"""For the scripted engine."""
EMBEDDINGS = Mix(
    good=b'{"id":"ID","task":"embed","input":"some words about ID"}',
    bad=(
        *BAD,
        b'{"task":"embed","input":"ID"}',
        b'{"id":"ID","task":"embed","input":[]}',
        b'{"id":"ID","task":"classify","input":"d"}',
        b'{"id":"ID","task":"embed","input":"d","model":"another"}',
        b'{"id":"ID","task":"embed","input":"d","dimensions":7}',
    ),
)
"""For an embedding model."""
POISON = b'{"id":"ID","task":"score","query":"q","document":"!die"}'
"""Kills the scripted engine, again and again; then it must become a dead letter."""


class Load:
    """Publishes until told to stop, round the partitions. What Kafka acknowledged is remembered."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, requests_per_second: float, mix: Mix = SCORES
    ) -> None:
        self.acknowledged: set[bytes] = set()
        """Ids."""
        self.requests_per_second = requests_per_second
        """Of the next `run`."""
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._mix = mix
        self._bad: dict[bytes, bytes] = {}
        self._special: deque[bytes] = deque()
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
        pace = OpenLoop(self.requests_per_second)
        while not self._stopping:
            try:
                async with open_publisher(Brokers(self._bootstrap_servers), self._acknowledge) as publisher:
                    await self._publish(publisher, pace)
            except (ToolFailure, KafkaError):
                await asyncio.sleep(REOPEN_SECONDS)

    def stop(self) -> None:
        """Let `run` come to its end."""
        self._stopping = True

    def add_bad(self, value: bytes) -> None:
        """Send this one next; it must become a dead letter."""
        self._special.append(value)

    async def _publish(self, publisher: Publisher, pace: OpenLoop) -> None:
        while not self._stopping:
            await pace.due(1)
            name, value = self._next()
            await publisher.send(self._topic, value, name=name.decode(), partition=self._sent % self._partitions)
        await publisher.flush()

    def _next(self) -> tuple[bytes, bytes]:
        self._sent += 1
        bad = self._mix.bad
        if self._special:
            value = self._special.popleft()
        elif bad and self._sent % BAD_EVERY == 0:
            value = bad[self._sent // BAD_EVERY % len(bad)]
        else:
            name = b"good-%d" % self._sent
            return name, self._mix.good.replace(b"ID", name)
        name = b"bad-%d" % self._sent
        self._bad[name] = value.replace(b"ID", name)
        return name, self._bad[name]

    def _acknowledge(self, name: str) -> None:
        self.acknowledged.add(name.encode())
