"""Which fault strikes when: decided by the seed alone, before anything runs."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

FIRST_MOVE_SECONDS = 3.0
"""Before it the workers are left alone: a fault during the first start shows little."""
GAP_SECONDS = (1.0, 6.0)
"""Between two moves. A fault lasts longer than the shortest gap, so faults overlap."""


class Fault(StrEnum):
    """What a move does."""

    KILL_WORKER = "kill -9 of a worker"
    FREEZE_WORKER = "a worker frozen beyond its session"
    TERMINATE_WORKER = "SIGTERM to a worker"
    EXTRA_WORKER = "one more worker, for a while"
    KILL_BROKER = "kill -9 of the broker"
    FREEZE_BROKER = "the broker frozen"
    CUT_NETWORK = "the network of every other worker cut"
    STALL_NETWORK = "the network of every other worker stalled"
    KILL_REDIS = "kill -9 of Redis"
    FREEZE_REDIS = "Redis frozen"
    KILL_ENGINE = "kill -9 of the engine of a worker"
    POISON = "a request that kills every engine"


ANY_ENGINE = tuple(fault for fault in Fault if fault not in (Fault.KILL_ENGINE, Fault.POISON))
"""What strikes in rounds whatever the engine."""
HOLD_SECONDS = {
    Fault.FREEZE_WORKER: (7.0, 12.0),
    Fault.EXTRA_WORKER: (1.0, 8.0),
    Fault.KILL_BROKER: (0.0, 3.0),
    Fault.FREEZE_BROKER: (1.0, 12.0),
    Fault.CUT_NETWORK: (0.0, 10.0),
    Fault.STALL_NETWORK: (4.0, 10.0),
    Fault.KILL_REDIS: (0.5, 5.0),
    Fault.FREEZE_REDIS: (0.5, 8.0),
}
"""How long it lasts: shorter than a timeout, and longer. The others take no time."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often one fault may make each partition repeat what it had delivered and not committed, and one chunk."""

    uncommitted: int
    chunks: int


REPEATS = {
    # What it had delivered dies uncommitted with it. When it is back, partitions change hands once more.
    Fault.KILL_WORKER: Repeats(1, 1),
    # It falls out of the group as if dead, and a write that it had begun may still come to its end; then it is back.
    Fault.FREEZE_WORKER: Repeats(1, 2),
    # In good order: all is committed. But if Redis is away, a chunk that stands on the results topic already cannot be
    # finished, and goes to the next owner uncommitted: once when a worker leaves and once when one joins.
    Fault.TERMINATE_WORKER: Repeats(0, 2),
    Fault.EXTRA_WORKER: Repeats(0, 2),
    # No commit gets through and the group may fall apart; a write whose acknowledgement was lost is sent again.
    Fault.KILL_BROKER: Repeats(1, 1),
    Fault.FREEZE_BROKER: Repeats(1, 1),
    # The same, for the workers behind the relay; then they are back.
    Fault.CUT_NETWORK: Repeats(1, 2),
    Fault.STALL_NETWORK: Repeats(1, 2),
    # Only the write to Redis is tried again.
    Fault.KILL_REDIS: Repeats(0, 0),
    Fault.FREEZE_REDIS: Repeats(0, 0),
    # Scored again, not delivered again. A worker whose engine has died again ends, which is counted when it happens.
    Fault.KILL_ENGINE: Repeats(0, 0),
    Fault.POISON: Repeats(0, 0),
}
ENGINE_END = Repeats(1, 1)
"""A worker that ends because its engine has died again: as killed."""


@dataclass(frozen=True, slots=True)
class Move:
    """One fault. `worker` is an index that only some faults need."""

    at_seconds: float
    fault: Fault
    worker: int
    hold_seconds: float

    def __str__(self) -> str:
        who = f" {self.worker}" if self.fault.value.endswith("worker") else ""
        lasting = f", {self.hold_seconds:.1f} s" if self.hold_seconds else ""
        return f"{self.at_seconds:6.1f} s  {self.fault.value}{who}{lasting}"


def plan(
    seed: int,
    seconds: float,
    workers: int,
    *,
    faults: Collection[Fault] = ANY_ENGINE,
    poisons: int = 0,
    gap_seconds: tuple[float, float] = GAP_SECONDS,
) -> list[Move]:
    """The moves that begin within `seconds`, in order. Every fault comes once before any comes again.

    `poisons` requests that kill every engine come somewhere in between.
    """
    choice = random.Random(seed)
    moves = list(_rounds(choice, seconds, workers, faults, gap_seconds))
    moves += [Move(choice.uniform(FIRST_MOVE_SECONDS, seconds), Fault.POISON, 0, 0.0) for _ in range(poisons)]
    return sorted(moves, key=lambda move: move.at_seconds)


def _rounds(
    choice: random.Random,
    seconds: float,
    workers: int,
    faults: Collection[Fault],
    gap_seconds: tuple[float, float],
) -> Iterator[Move]:
    at_seconds = FIRST_MOVE_SECONDS
    while True:
        for fault in choice.sample(list(faults), len(faults)):
            if at_seconds >= seconds:
                return
            hold_seconds = choice.uniform(*HOLD_SECONDS.get(fault, (0.0, 0.0)))
            yield Move(at_seconds, fault, choice.randrange(workers), hold_seconds)
            at_seconds += choice.uniform(*gap_seconds)


def duplicates_bound(moves: Collection[Move], engine_ends: int, uncommitted_records: int, chunk_records: int) -> int:
    """Of one partition after these moves."""
    causes = [REPEATS[move.fault] for move in moves] + [ENGINE_END] * engine_ends
    return sum(cause.uncommitted * uncommitted_records + cause.chunks * chunk_records for cause in causes)
