"""Workers on Apache Kafka and Redis under load, faults at random, and the judgement on what came of it."""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.deployment import DURABLE, Deployment, serving, under_load
from tests.chaos.fleet import Slot
from tests.chaos.forms import Engine, form_of
from tests.chaos.judgement import Judgement
from tests.chaos.load import POISON, Load
from tests.chaos.plan import Fault, Move, duplicates_bound, plan
from tests.chaos.relay import Relay
from tests.services.kafka import KafkaNode
from tests.services.process import ServerProcess, free_port
from tests.services.redis import RedisNode

NAME = "chaos"
PARTITIONS = 8
MAX_UNCOMMITTED_RECORDS, CHUNK_RECORDS = 50, 25
DRAIN_SECONDS, STOP_GRACE_SECONDS = 8.0, 5.0
CATCH_UP_SECONDS = 120.0
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


@dataclass(frozen=True, slots=True)
class Options:
    """Of one drill; None: as the engine can bear."""

    seed: int
    seconds: float
    engine: Engine = Engine.SCRIPTED
    workers: int | None = None
    requests_per_second: float | None = None
    poisons: int | None = None


class Drill:
    """One run. `say` is told each move as it begins."""

    def __init__(self, folder: Path, options: Options, say: Callable[[str], None]) -> None:
        relayed_port = free_port(count=2)
        relay_port = relayed_port + 1
        self._relay = Relay(relay_port, relayed_port)
        self._relayed = {"kafka.bootstrap_servers": f"127.0.0.1:{relay_port}"}
        self._kafka = KafkaNode(folder / "kafka")
        self._kafka.properties |= relayed_listener(self._kafka.port, relayed_port, relay_port)
        self._redis = RedisNode(folder / "redis", DURABLE)
        self._form = form = form_of(options.engine)
        self._workers = options.workers or form.workers
        self._moves = plan(
            options.seed,
            options.seconds,
            self._workers,
            faults=form.faults,
            poisons=form.poisons if options.poisons is None else options.poisons,
            gap_seconds=form.gap_seconds,
        )
        self._deployment = Deployment(
            self._kafka,
            self._redis,
            NAME,
            partitions=PARTITIONS,
            folder=folder,
            settings=SETTINGS | dict(form.settings),
            stop_seconds=DRAIN_SECONDS + form.engine_stop_seconds + STOP_GRACE_SECONDS,
            running_seconds=form.running_seconds,
        )
        self._load = self._deployment.load(options.requests_per_second or form.requests_per_second, form.mix)
        self._say = say
        self._lasting: list[Slot] = []
        self._broker_free, self._redis_free = asyncio.Lock(), asyncio.Lock()

    async def run(self) -> Judgement:
        """Everything, from the first server's start to the last one's end. Raises what keeps it from its judgement."""
        async with serving(self._kafka, self._redis), self._relay, self._deployment as deployment:
            # Every other one through the relay: when that fails, the rest takes over from workers that are alive.
            ways = itertools.cycle((self._relayed, {}))
            self._lasting = [deployment.open_slot(str(number), next(ways)) for number in range(self._workers)]
            await asyncio.gather(*(slot.until_running() for slot in self._lasting))
            async with under_load(self._load):
                await self._strike()
            await deployment.until_all_committed(self._form.catch_up_seconds)
            await asyncio.gather(*(slot.retire() for slot in self._lasting))
            engine_ends = sum(slot.engine_ends for slot in deployment.slots)
            self._say(f"{engine_ends} workers ended because their engine had died again")
            bound = duplicates_bound(self._moves, engine_ends, MAX_UNCOMMITTED_RECORDS, CHUNK_RECORDS)
            return await deployment.judged(self._load, bound)

    async def _strike(self) -> None:
        """Each at its time, whether or not the ones before have ended; returns when all have."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as striking:
            for move in self._moves:
                await asyncio.sleep(max(0.0, began + move.at_seconds - time.monotonic()))
                self._say(str(move))
                striking.create_task(self._move(move))

    def _move(self, move: Move) -> Coroutine[Any, Any, None]:
        slot, hold_seconds = self._lasting[move.worker], move.hold_seconds
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
            Fault.KILL_ENGINE: slot.kill_engine,
            Fault.POISON: lambda: _poison(self._load),
        }
        return moves[move.fault]()

    async def _join_and_leave(self, name: str, hold_seconds: float) -> None:
        slot = self._deployment.open_slot(name, self._relayed)
        await slot.until_running()
        await asyncio.sleep(hold_seconds)
        await slot.retire()


def relayed_listener(port: int, relayed_port: int, relay_port: int) -> dict[str, str]:
    """Broker properties: who comes through the relay is told to come back through the relay."""
    controller = port + 1
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},RELAYED://127.0.0.1:{relayed_port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},RELAYED://127.0.0.1:{relay_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


async def _poison(load: Load) -> None:
    load.add_bad(POISON)


async def _kill(server: ServerProcess, free: asyncio.Lock, down_seconds: float) -> None:
    """Nothing while it is away already: on a busy machine faults that queue would make one outage without an end."""
    if free.locked():
        return
    async with free:
        await server.kill()
        await asyncio.sleep(down_seconds)
        await server.start()


async def _freeze(server: ServerProcess, free: asyncio.Lock, seconds: float) -> None:
    """Nothing while it is away already, as `_kill`."""
    if free.locked():
        return
    async with free:
        server.freeze()
        await asyncio.sleep(seconds)
        server.thaw()
