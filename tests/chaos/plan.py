"""Which fault strikes when: decided by the seed alone, before anything runs."""

import random
from collections.abc import Iterator
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


HOLD_SECONDS = {
    Fault.KILL_WORKER: (0.0, 1.0),
    Fault.FREEZE_WORKER: (7.0, 12.0),
    Fault.TERMINATE_WORKER: (0.0, 1.0),
    Fault.EXTRA_WORKER: (1.0, 8.0),
    Fault.KILL_BROKER: (0.0, 3.0),
    Fault.FREEZE_BROKER: (1.0, 12.0),
    Fault.CUT_NETWORK: (0.0, 10.0),
    Fault.STALL_NETWORK: (4.0, 10.0),
    Fault.KILL_REDIS: (0.5, 5.0),
    Fault.FREEZE_REDIS: (0.5, 8.0),
}
"""How long it lasts: shorter than a timeout, and longer."""


@dataclass(frozen=True, slots=True)
class Move:
    """One fault. `worker` is an index that only some faults need."""

    at_seconds: float
    fault: Fault
    worker: int
    hold_seconds: float

    def __str__(self) -> str:
        who = f" {self.worker}" if self.fault.value.endswith("worker") else ""
        return f"{self.at_seconds:6.1f} s  {self.fault.value}{who}, {self.hold_seconds:.1f} s"


def plan(seed: int, seconds: float, workers: int) -> list[Move]:
    """The moves that begin within `seconds`, in order. Every fault comes once before any comes again."""
    return list(_moves(random.Random(seed), seconds, workers))


def _moves(choice: random.Random, seconds: float, workers: int) -> Iterator[Move]:
    at_seconds = FIRST_MOVE_SECONDS
    while True:
        for fault in choice.sample(list(Fault), len(Fault)):
            if at_seconds >= seconds:
                return
            yield Move(at_seconds, fault, choice.randrange(workers), choice.uniform(*HOLD_SECONDS[fault]))
            at_seconds += choice.uniform(*GAP_SECONDS)
