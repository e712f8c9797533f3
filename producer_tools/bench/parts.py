"""What a suite is made of: the parts that are measured one after the other, each with a start of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from producer_tools.bench.measurement import Kind, Measurement
from producer_tools.bench.suite import Deployment, Suite
from producer_tools.console import ToolFailure


class Step(StrEnum):
    """What a part does."""

    ENGINES = "engines"
    LONE_ENGINE = "lone engine"
    PIPELINE = "pipeline"
    BACKLOG = "backlog"
    TRANSFORMERS = "transformers"


class Wanted(NamedTuple):
    """One measurement that a part brings."""

    kind: Kind
    deployment: str
    mix: str
    engines: int


class SuitePart(NamedTuple):
    """One start of something, and what is measured while it runs."""

    step: Step
    deployment: Deployment
    wanted: Sequence[Wanted]

    @property
    def name(self) -> str:
        """Unique within the suite."""
        return self.step.value if self.step is Step.TRANSFORMERS else f"{self.deployment.name}: {self.step.value}"

    def missing(self, measurements: Sequence[Measurement]) -> list[Wanted]:
        """What is not among these yet."""
        there = {Wanted(one.kind, one.deployment, one.mix, one.engines) for one in measurements}
        return [one for one in self.wanted if one not in there]


def transformers_name(batch_size: int) -> str:
    """In reports, where a deployment's name stands."""
    return f"transformers, batch {batch_size}"


def parts_of(suite: Suite) -> list[SuitePart]:
    """In the order in which they are measured."""
    return [part for one in suite.deployments for part in _parts(suite, one)]


def chosen_parts(suite: Suite, names: Sequence[str]) -> list[SuitePart]:
    """Those of these names, a deployment's name standing for all of its own; all of them if there are no names.

    Raises ToolFailure, naming all, for a name that there is not.
    """
    parts = parts_of(suite)
    for name in names:
        if name not in {known for part in parts for known in (part.name, part.deployment.name)}:
            raise ToolFailure(f"the suite has no part {name}; it has: {'; '.join(part.name for part in parts)}")
    return [part for part in parts if not names or {part.name, _owner(part)} & set(names)]


def _owner(part: SuitePart) -> str:
    """Whose it is: the baseline is nobody's."""
    return part.name if part.step is Step.TRANSFORMERS else part.deployment.name


def _parts(suite: Suite, one: Deployment) -> Iterator[SuitePart]:
    mixes = one.mixes or suite.mixes

    def part(step: Step, kind: Kind, mixes: Sequence[str], counts: Sequence[int]) -> SuitePart:
        return SuitePart(step, one, [Wanted(kind, one.name, mix, count) for count in counts for mix in mixes])

    if "engine" in one.measure:
        yield part(Step.ENGINES, Kind.ENGINE, mixes, one.engine_counts)
    if {"engine", "one_at_a_time"} <= set(one.measure):
        yield part(Step.LONE_ENGINE, Kind.ENGINE_LONE, mixes[:1], [1])
    if suite.backlog and "pipeline" in one.measure:
        yield part(Step.BACKLOG, Kind.PIPELINE, mixes, [one.workers])
    elif {"pipeline", "one_at_a_time"} & set(one.measure):
        loaded = part(Step.PIPELINE, Kind.PIPELINE, mixes if "pipeline" in one.measure else (), [one.workers])
        lone = [Wanted(Kind.PIPELINE_LONE, one.name, mixes[0], one.workers)] if "one_at_a_time" in one.measure else []
        yield loaded._replace(wanted=[*loaded.wanted, *lone])
    if one is suite.deployments[0] and (baseline := suite.transformers) is not None:
        name = transformers_name(baseline.batch_size)
        wanted = [Wanted(Kind.TRANSFORMERS, name, mix, 1) for mix in baseline.mixes or mixes]
        yield SuitePart(Step.TRANSFORMERS, one, wanted)
