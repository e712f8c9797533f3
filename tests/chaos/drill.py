"""Workers on Apache Kafka and Redis under load, faults at random, and the judgement on what came of it."""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.fleet import Slot
from tests.chaos.judgement import Judgement, Place, judge
from tests.chaos.load import Load
from tests.chaos.offsets import CommittedOffsets
from tests.chaos.plan import Fault, Move, plan
from tests.chaos.relay import Relay
from tests.services.kafka import KafkaNode, create_topics
from tests.services.process import ServerProcess, free_port
from tests.services.redis import RedisNode

NAME = "chaos"
PARTITIONS = 8
MAX_UNCOMMITTED_RECORDS, CHUNK_RECORDS = 50, 25
DRAIN_SECONDS, STOP_GRACE_SECONDS = 8.0, 5.0
CATCH_UP_SECONDS = 120.0
LOOK_SECONDS = 0.5
TAIL_BYTES = 3000
SETTINGS: dict[str, object] = {
    "kafka.session_timeout_seconds": 6,
    "kafka.heartbeat_interval_seconds": 2,
    "kafka.rebalance_timeout_seconds": 20,
    "kafka.request_timeout_seconds": 25,
    "kafka.delivery_timeout_seconds": 5,
    "redis.timeout_seconds": 1,
    "limits.max_uncommitted_records": MAX_UNCOMMITTED_RECORDS,
    "limits.chunk_records": CHUNK_RECORDS,
    "commit.timeout_seconds": 1,
    "shutdown.revoke_seconds": 4,
    "shutdown.drain_seconds": DRAIN_SECONDS,
}
"""Short timeouts, so that faults last longer than they do; small bounds, so that breaking one shows."""
DURABLE = {"appendonly": "yes", "appendfsync": "always"}
"""What Redis has acknowledged it still holds after kill -9."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of one drill."""

    seed: int
    seconds: float
    workers: int = 3
    requests_per_second: float = 150.0


class Drill:
    """One run. `say` is told each move as it begins."""

    def __init__(self, folder: Path, options: Options, say: Callable[[str], None]) -> None:
        relayed_port = free_port(count=2)
        relay_port = relayed_port + 1
        self._relay = Relay(relay_port, relayed_port)
        self._relayed_servers = f"127.0.0.1:{relay_port}"
        self._kafka = KafkaNode(folder / "kafka")
        self._kafka.properties |= relayed_listener(self._kafka.port, relayed_port, relay_port)
        self._redis = RedisNode(folder / "redis", DURABLE)
        self._place = Place(self._kafka.bootstrap_servers, self._redis.url, NAME)
        self._folder = folder
        self._options = options
        self._say = say
        self._slots: list[Slot] = []
        self._keeping: list[asyncio.Task[None]] = []
        self._broker_free, self._redis_free = asyncio.Lock(), asyncio.Lock()

    async def run(self) -> Judgement:
        """Everything, from the first server's start to the last one's end. Raises what keeps it from its judgement."""
        try:
            await asyncio.gather(self._kafka.start(), self._redis.start())
            topics = self._place.topics
            wanted = dict.fromkeys((topics.requests, topics.results, topics.dead_letters), PARTITIONS)
            await create_topics(self._place.bootstrap_servers, wanted)
            async with self._relay:
                return await self._with_servers()
        finally:
            for keeping in self._keeping:
                keeping.cancel()
            for slot in self._slots:
                slot.abandon()
            await asyncio.gather(self._kafka.kill(), self._redis.kill())

    async def _with_servers(self) -> Judgement:
        options, place = self._options, self._place
        load = Load(place.bootstrap_servers, place.topics.requests, PARTITIONS, options.requests_per_second)
        offsets = CommittedOffsets(place.bootstrap_servers, NAME, place.topics.requests)
        # Every other one through the relay: when that fails, the rest takes over from workers that are alive.
        ways = itertools.cycle((self._relayed_servers, place.bootstrap_servers))
        lasting = [self._open_slot(str(number), next(ways)) for number in range(options.workers)]
        await asyncio.gather(*(slot.until_running() for slot in lasting))
        moves = plan(options.seed, options.seconds, options.workers)
        async with asyncio.TaskGroup() as tasks:
            loading = tasks.create_task(load.run())
            looking = tasks.create_task(offsets.follow(LOOK_SECONDS))
            await self._strike(moves)
            load.stop()
            await loading
            looking.cancel()
        ends = await place.ends(place.topics.requests)
        await offsets.until(lambda committed: committed == ends, f"committed is {ends}", CATCH_UP_SECONDS)
        await asyncio.gather(*(slot.retire() for slot in lasting))
        # A change of owner repeats what was delivered and not committed, and one write may be on its way twice.
        judgement = await judge(place, load, len(moves) * (MAX_UNCOMMITTED_RECORDS + CHUNK_RECORDS))
        judgement.mismatches += offsets.went_back
        judgement.mismatches += [one for slot in self._slots for one in slot.wrong]
        return judgement

    async def _strike(self, moves: list[Move]) -> None:
        """Each at its time, whether or not the ones before have ended; returns when all have."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as striking:
            for move in moves:
                await asyncio.sleep(max(0.0, began + move.at_seconds - time.monotonic()))
                self._say(str(move))
                striking.create_task(self._move(move))

    def _move(self, move: Move) -> Coroutine[Any, Any, None]:
        slot, hold_seconds = self._slots[move.worker], move.hold_seconds
        moves: dict[Fault, Callable[[], Coroutine[Any, Any, None]]] = {
            Fault.KILL_WORKER: slot.kill,
            Fault.FREEZE_WORKER: lambda: slot.freeze(hold_seconds),
            Fault.TERMINATE_WORKER: slot.terminate,
            Fault.EXTRA_WORKER: lambda: self._join_and_leave(f"extra-{move.at_seconds:.0f}", hold_seconds),
            Fault.KILL_BROKER: lambda: _kill(self._kafka, self._broker_free, hold_seconds),
            Fault.FREEZE_BROKER: lambda: _freeze(self._kafka, self._broker_free, hold_seconds),
            Fault.CUT_NETWORK: lambda: self._relay.cut(hold_seconds),
            Fault.STALL_NETWORK: lambda: self._relay.stall(hold_seconds),
            Fault.KILL_REDIS: lambda: _kill(self._redis, self._redis_free, hold_seconds),
            Fault.FREEZE_REDIS: lambda: _freeze(self._redis, self._redis_free, hold_seconds),
        }
        return moves[move.fault]()

    async def _join_and_leave(self, name: str, hold_seconds: float) -> None:
        slot = self._open_slot(name, self._relayed_servers)
        await slot.until_running()
        await asyncio.sleep(hold_seconds)
        await slot.retire()

    def _open_slot(self, name: str, bootstrap_servers: str) -> Slot:
        settings = SETTINGS | self._place.settings | {"kafka.bootstrap_servers": bootstrap_servers}
        slot = Slot(name, self._folder / f"worker-{name}", settings, DRAIN_SECONDS + STOP_GRACE_SECONDS)
        self._slots.append(slot)
        self._keeping.append(asyncio.create_task(slot.keep_up()))
        return slot


def relayed_listener(port: int, relayed_port: int, relay_port: int) -> dict[str, str]:
    """Broker properties: who comes through the relay is told to come back through the relay."""
    controller = port + 1
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},RELAYED://127.0.0.1:{relayed_port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},RELAYED://127.0.0.1:{relay_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


async def _kill(server: ServerProcess, free: asyncio.Lock, down_seconds: float) -> None:
    async with free:
        await server.kill()
        await asyncio.sleep(down_seconds)
        await server.start()


async def _freeze(server: ServerProcess, free: asyncio.Lock, seconds: float) -> None:
    async with free:
        server.freeze()
        await asyncio.sleep(seconds)
        server.thaw()


def explain(judgement: Judgement, seed: int, folder: Path) -> str:
    """What is needed to find out why: the seed, the mismatches with their coordinates, the ends of the logs."""
    return "\n".join([f"seed {seed}: {judgement}", *judgement.mismatches, log_tails(folder)])


def log_tails(folder: Path) -> str:
    """The end of every log."""
    logs = sorted(folder.glob("*/*.log"))
    return "\n".join(f"--- {log}\n{log.read_bytes()[-TAIL_BYTES:].decode(errors='replace')}" for log in logs)
