"""Topics and a cache of one test's own, and the tools' command line on them."""

import asyncio
import os
import pty
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.fakes.echo_worker import Answer, EchoWorker

TOOL = [sys.executable, "-c", "from producer_tools.cli import app; app(prog_name='scorestream')"]
PARTITIONS = {"requests": 4, "results": 4, "dead": 1}


@dataclass
class Ended:
    """A finished command."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


@dataclass
class Place:
    """The topics and the cache of one test, and its command line."""

    echo: EchoWorker

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS": self.echo.bootstrap_servers,
            "SCORESTREAM_KAFKA__REQUEST_TOPIC": self.echo.requests,
            "SCORESTREAM_KAFKA__RESULT_TOPIC": self.echo.results,
            "SCORESTREAM_KAFKA__DEAD_LETTER_TOPIC": self.echo.dead,
            "SCORESTREAM_REDIS__URL": self.echo.redis_url,
            "SCORESTREAM_REDIS__PREFIX": self.echo.prefix,
        }

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *TOOL,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )

    async def run(self, *arguments: str, stdin: Sequence[str] = ()) -> Ended:
        process = await self.start(*arguments)
        text = "".join(f"{line}\n" for line in stdin).encode()
        async with asyncio.timeout(60):
            stdout, stderr = await process.communicate(text)
        assert process.returncode is not None
        return Ended(process.returncode, stdout.decode(), stderr.decode())

    async def run_on_terminal(self, *arguments: str) -> str:
        """What a command that ends well writes to a terminal that is its stdout and stderr."""
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *TOOL, *arguments, stdout=theirs, stderr=theirs, env=self.environment | {"TERM": "dumb", "COLUMNS": "300"}
        )
        os.close(theirs)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            return terminal.read(65536).decode()

    async def records(self, topic: str) -> list:
        """Everything on a topic now."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.echo.bootstrap_servers)
        await consumer.start()
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS[topic.rpartition(".")[2]])]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        found: list = []
        while len(found) < sum(ends.values()):
            found += [record for some in (await consumer.getmany(timeout_ms=500)).values() for record in some]
        await consumer.stop()
        return found

    async def put(self, answers: Sequence[tuple[int, Answer]]) -> None:
        """These answers on the topics, each result on the partition given, in the order given."""
        producer = AIOKafkaProducer(bootstrap_servers=self.echo.bootstrap_servers)
        await producer.start()
        for partition, one in answers:
            for topic, record, where in (
                (self.echo.results, one.result, partition),
                (self.echo.dead, one.dead_letter, 0),
            ):
                if record is not None:
                    await producer.send_and_wait(
                        topic, key=record.key, value=record.value, headers=list(record.headers), partition=where
                    )
        await producer.stop()
