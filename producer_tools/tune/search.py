"""Greedy search: the number of engines, then one setting at a time, each value beside the best so far.

The number comes first, because what a setting brings depends on it: where one engine is bound by its own Python, what
the GPU computes faster does not show.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
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
    """One thing that may be chosen: what else to try beside the best so far."""

    name: str
    others: Callable[[Candidate], Sequence[Candidate]]


@dataclass(frozen=True, slots=True)
class Tried:
    """One measurement. `requests_per_second` is None when the engine did not run so; then `problem` says why."""

    candidate: Candidate
    requests_per_second: float | None
    problem: str = ""


Measure = Callable[[Sequence[Candidate]], AsyncGenerator[Tried, None]]
"""Candidates that differ in nothing but their engines, fewest first: those that run go on while others are added.

Ends with the first that does not run.
"""


@dataclass(slots=True)
class Search:
    """The measurements so far. `time_left` is asked before each; a search that it ends keeps the best so far.

    `kept`: paths of settings that are given, so that no other value of them is tried.
    """

    measure: Measure
    time_left: Callable[[], bool]
    note: Callable[[str], None]
    kept: frozenset[str] = frozenset()
    tried: list[Tried] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    async def run(self, starts: Sequence[Candidate], steps: Sequence[Step]) -> Tried:
        """The fastest found. `starts` differ in nothing but their engines.

        Where the first of them does not run, nothing else is tried: the others differ by a thing or two.
        """
        best = await self._fastest_of(starts, None)
        if best.requests_per_second is None:
            return best
        for step in steps:
            for other in step.others(best.candidate):
                if self.kept & other.settings.keys() or any(one.candidate == other for one in self.tried):
                    continue
                if self.time_left():
                    best = await self._fastest_of([other], best)
                else:
                    self.left_out.append(f"{step.name}: {other}")
        return best

    async def _fastest_of(self, candidates: Sequence[Candidate], best: Tried | None) -> Tried:
        """Of the best so far and of these; at least the first of them is measured."""
        untried = list(candidates)
        async with aclosing(self.measure(candidates)) as measured:
            async for found in measured:
                untried.remove(found.candidate)
                self._tell(found)
                if best is None or _faster(found, best):
                    best = found
                if untried and found.requests_per_second is not None and not self.time_left():
                    self.left_out.extend(f"engines: {one}" for one in untried)
                    break
        assert best is not None
        return best

    def _tell(self, found: Tried) -> None:
        self.tried.append(found)
        rate = found.requests_per_second
        said = f"does not run ({found.problem})" if rate is None else f"{rate:.1f} requests/s"
        self.note(f"{found.candidate}: {said}")


def _faster(found: Tried, best: Tried) -> bool:
    rate, before = found.requests_per_second, best.requests_per_second
    return rate is not None and before is not None and rate > before * (1 + NOISE)
