"""What a run of the bench found out. Its JSON is a contract: fields are added, never changed; see docs/bench.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field, computed_field

from producer_tools.bench.measurement import Kind, Measurement, Part
from producer_tools.bench.targets import Outcome, ScoreDifference, Target, outcome_of, score_differences

SCHEMA = 1


class Ratio(Part):
    """The pipeline beside the others on one mix. None: there is nothing to compare with."""

    deployment: str
    mix: str
    pipeline_requests_per_second: float
    to_own_engine: float | None
    """To engines alone with the same settings."""
    to_best_engine: float | None
    """To the fastest engines alone of this run."""
    to_transformers: float | None


class Report(Part):
    """One run of the bench."""

    schema_version: int = Field(default=SCHEMA, alias="schema", serialization_alias="schema")
    scorestream: str
    started_at: str
    machine: dict[str, Any]
    suite: dict[str, Any]
    """What was asked for."""
    asked: list[Target] = Field(default_factory=list, exclude=True)
    """The suite's targets."""
    measurements: list[Measurement] = Field(default_factory=list)
    skipped: list[str] = Field(default_factory=list)
    """What was asked for and not measured, each with the reason."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratios(self) -> list[Ratio]:
        """One per pipeline measurement."""
        return [self._ratio(one) for one in self.of_kind(Kind.PIPELINE)]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def targets(self) -> list[Outcome]:
        """Each target of the suite, met or not."""
        return [outcome_of(target, self.measurements) for target in self.asked]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def score_differences(self) -> list[ScoreDifference]:
        """Of each deployment to the first one that scored the same requests."""
        return score_differences(self.of_kind(Kind.PIPELINE))

    def of_kind(self, kind: Kind) -> list[Measurement]:
        """In the order in which they were measured."""
        return [one for one in self.measurements if one.kind is kind]

    def as_json(self) -> str:
        """One JSON object."""
        return self.model_dump_json(by_alias=True)

    def _ratio(self, pipeline: Measurement) -> Ratio:
        same_mix = [one for one in self.measurements if one.mix == pipeline.mix]
        engines = [one for one in same_mix if one.kind is Kind.ENGINE]
        own = [one for one in engines if (one.deployment, one.engines) == (pipeline.deployment, pipeline.engines)]
        transformers = [one for one in same_mix if one.kind is Kind.TRANSFORMERS]
        return Ratio(
            deployment=pipeline.deployment,
            mix=pipeline.mix,
            pipeline_requests_per_second=pipeline.requests_per_second,
            to_own_engine=_over(pipeline, own),
            to_best_engine=_over(pipeline, engines),
            to_transformers=_over(pipeline, transformers),
        )


def _over(pipeline: Measurement, others: Iterable[Measurement]) -> float | None:
    best = max((one.requests_per_second for one in others), default=0.0)
    return round(pipeline.requests_per_second / best, 4) if best else None
