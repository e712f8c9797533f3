"""Greedy search, one setting at a time: measure each other value of it beside the best so far, keep what is faster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

NOISE = 0.02
"""A gain smaller than this share is taken for noise; the setting that is there stays."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """How to run: engines on this machine, their settings by dotted path, and whether they share a GPU through MPS."""

    engines: int = 1
    mps: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"{self.engines} engine{'s' if self.engines > 1 else ''}", *(["MPS"] if self.mps else [])]
        return ", ".join([*said, *(f"{name.removeprefix('engine.')}={value}" for name, value in self.settings.items())])

    def with_settings(self, **settings: Any) -> Candidate:
        """With more or other settings of the engine; `args__x` is engine.args.x."""
        named = {f"engine.{name.replace('__', '.')}": value for name, value in settings.items()}
        return replace(self, settings=self.settings | named)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that may be chosen: what else to try beside the best so far.

    `while_better`: the values form a ladder, and the first that is not faster ends it.
    """

    name: str
    others: Callable[[Candidate], Sequence[Candidate]]
    while_better: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """One measurement. `requests_per_second` is None when the engine did not run so; then `problem` says why."""

    candidate: Candidate
    requests_per_second: float | None
    problem: str = ""


Measure = Callable[[Candidate], Awaitable[Tried]]


@dataclass(slots=True)
class Search:
    """The measurements so far. `time_left` is asked before each; a search that it ends keeps the best so far."""

    measure: Measure
    time_left: Callable[[], bool]
    note: Callable[[str], None]
    tried: list[Tried] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    async def run(self, start: Candidate, steps: Sequence[Step]) -> Tried:
        """The fastest found. Where `start` does not run, nothing else is tried: the others differ by a thing or two."""
        best = await self._try(start)
        if best.requests_per_second is None:
            return best
        for step in steps:
            for other in step.others(best.candidate):
                if any(one.candidate == other for one in self.tried):
                    continue
                if not self.time_left():
                    self.left_out.append(f"{step.name}: {other}")
                    continue
                found = await self._try(other)
                if _faster(found, best):
                    best = found
                elif step.while_better:
                    break
        return best

    async def _try(self, candidate: Candidate) -> Tried:
        found = await self.measure(candidate)
        self.tried.append(found)
        rate = found.requests_per_second
        self.note(f"{candidate}: " + (f"does not run ({found.problem})" if rate is None else f"{rate:.1f} requests/s"))
        return found


def _faster(found: Tried, best: Tried) -> bool:
    rate, before = found.requests_per_second, best.requests_per_second
    return rate is not None and before is not None and rate > before * (1 + NOISE)
