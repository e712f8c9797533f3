"""What became of the workers beside one that was killed: of their processes, of their engines, of their partitions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.services.supervisor import SupervisorProcess

WENT_ON = "it went on"
ENDED, RESTARTED = "worker ended", "engine restarted"
"""Events of the log: a process has ended; an engine was started again within its worker."""


@dataclass(slots=True)
class Losses:
    """Longest time without an answer after the kill, in seconds; by partition, of the victim's and of the others'."""

    victim: int
    back: str
    """What was so when the victim was back."""
    back_seconds: float
    """From the kill until then."""
    victims: dict[int, float] = field(default_factory=dict)
    others: dict[int, float] = field(default_factory=dict)
    fates: dict[int, str] = field(default_factory=dict)
    """Of the other workers."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.back} {self.back_seconds:.1f} s after worker {self.victim} was killed",
            f"longest pause of its partitions: {_seconds(self.victims)}",
            f"of the others': {_seconds(self.others)}",
            *(f"worker {worker}: {fate}" for worker, fate in sorted(self.fates.items())),
        ]
        return "\n".join(lines)


def longest_pause(moments: Iterable[float]) -> float:
    """Between two answers, in seconds."""
    return max((after - before for before, after in pairwise(sorted(moments))), default=0.0)


def fates(supervisor: SupervisorProcess, workers: Iterable[int]) -> dict[int, str]:
    """In words, from the log of all: whether each lived through it."""
    return {worker: _fate(supervisor, worker) for worker in workers}


def _fate(supervisor: SupervisorProcess, worker: int) -> str:
    ends, restarts = supervisor.told(ENDED, worker), supervisor.told(RESTARTED, worker)
    said = [f"its engine died and was started again after {one['seconds']} s" for one in restarts]
    said += [
        "it was told to drain, finished what it had and left"
        if one["exit_code"] == 0
        else f"it ended with exit code {one['exit_code']}: {one['reason']}"
        for one in ends
    ]
    return "; ".join(said) or WENT_ON


def _seconds(pauses: Mapping[int, float]) -> str:
    return ", ".join(f"partition {partition} {seconds:.1f} s" for partition, seconds in sorted(pauses.items()))
