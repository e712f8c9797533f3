"""One measurement, as it stands in a report."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Kind(StrEnum):
    """What was measured."""

    PIPELINE = "pipeline"
    PIPELINE_LONE = "pipeline_one_at_a_time"
    ENGINE = "engine"
    ENGINE_LONE = "engine_one_at_a_time"
    TRANSFORMERS = "transformers"


class Part(BaseModel):
    """Of a report."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Gpu(Part):
    """One GPU while a measurement ran."""

    index: str
    name: str
    busy_percent: float | None
    """Mean share of time in which it computed anything; None where the driver does not tell."""
    max_memory_mib: float


class Measurement(Part):
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
    scores: list[list[float | None]] | None = None
    """Of the first requests, which are the same for every deployment: by request, by item; None for one that failed."""
    dtype: str | None = None
