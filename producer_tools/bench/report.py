"""What a run of the bench found out. Its JSON is a contract: fields are added, never changed; see docs/bench.md."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, computed_field

SCHEMA = 1


class Kind(StrEnum):
    """What was measured."""

    PIPELINE = "pipeline"
    PIPELINE_LONE = "pipeline_one_at_a_time"
    ENGINE = "engine"
    ENGINE_LONE = "engine_one_at_a_time"
    TRANSFORMERS = "transformers"


class _Part(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Gpu(_Part):
    """One GPU while a measurement ran."""

    index: str
    name: str
    busy_percent: float | None
    """Mean share of time in which it computed anything; None where the driver does not tell."""
    max_memory_mib: float


class Measurement(_Part):
    """One rate or latency. None: not measured."""

    kind: Kind
    deployment: str
    """Name of the settings it ran with."""
    mix: str
    engines: int
    """Workers, for the pipeline; each has one engine."""
    requests: int
    seconds: float
    """From the first request to the last result."""
    requests_per_second: float
    """The pipeline's is of the steady part: the middle 80 % of the results."""
    tokens_per_request: float | None = None
    """Mean; what entered the engine."""
    latency_ms: dict[str, float] | None = None
    """mean, p50, p90, p99, p99.9, max. The pipeline's from when a request was due until its result was read; one at a
    time: from publishing until the result was read from Redis."""
    latency_histogram: list[tuple[float, int]] | None = None
    """(upper bound in ms, count) of each bucket that is not empty."""
    stages_ms: dict[str, dict[str, float]] | None = None
    """By stage of `timings_ms` of the results: mean, p50, p90, p99, p99.9, max."""
    cpu_us_per_request: dict[str, float] | None = None
    """By role: supervisor, worker, event_loop (part of worker), engine, load_generator."""
    gpus: list[Gpu] = []
    lag_at_start: int | None = None
    """Requests on the topic that were waiting when the measurement began."""
    statuses: dict[str, int] | None = None
    dtype: str | None = None


class Ratio(_Part):
    """The pipeline beside the others on one mix. None: there is nothing to compare with."""

    deployment: str
    mix: str
    pipeline_requests_per_second: float
    to_own_engine: float | None
    """To engines alone with the same settings."""
    to_best_engine: float | None
    """To the fastest engines alone of this run."""
    to_transformers: float | None


class Report(_Part):
    """One run of the bench."""

    schema_version: int = Field(default=SCHEMA, alias="schema", serialization_alias="schema")
    scorestream: str
    started_at: str
    machine: dict[str, Any]
    suite: dict[str, Any]
    """What was asked for."""
    measurements: list[Measurement] = []
    skipped: list[str] = []
    """What was asked for and not measured, each with the reason."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratios(self) -> list[Ratio]:
        """One per pipeline measurement."""
        return [self._ratio(one) for one in self.of_kind(Kind.PIPELINE)]

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
