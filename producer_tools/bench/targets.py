"""What a suite asks of its own figures, and whether they came out so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Self

from pydantic import ConfigDict, model_validator

from producer_tools.bench.measurement import Kind, Measurement, Part


class Quantity(StrEnum):
    """What is asked about. Each is of one mix, and of the best deployment unless one is named."""

    RATE = "requests_per_second"
    """Of the pipeline."""
    TO_BEST_ENGINE = "to_best_engine"
    """The pipeline's rate to that of the fastest engines alone."""
    TO_TRANSFORMERS = "to_transformers"
    GAIN = "gain"
    """The pipeline's rate to that of the deployment `beside`."""
    SCORE_DIFFERENCE = "score_difference"
    """The largest difference of a score to that of the deployment `beside`."""
    LONE_P50_MS = "one_at_a_time_p50_ms"
    LONE_OVER_ENGINE_MS = "one_at_a_time_p50_ms_over_engine"
    """What the pipeline adds to AsyncLLM alone."""
    WORKER_US = "worker_us_per_request"
    """Processor time of the worker's own process, all its threads."""
    EVENT_LOOP_US = "event_loop_us_per_request"
    """Of its event loop's thread."""


_PAIRED = (Quantity.GAIN, Quantity.SCORE_DIFFERENCE)


class Target(Part):
    """One thing that a suite asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    quantity: Quantity
    mix: str
    deployment: str | None = None
    """Default: whichever does best."""
    beside: str | None = None
    """The other deployment, for `gain` and `score_difference`."""
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def check(self) -> Self:
        """One bound; and two deployments where two are compared."""
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give at_least or at_most, one of them")
        paired = self.quantity in _PAIRED
        if paired and None in (self.deployment, self.beside):
            raise ValueError(f"{self.quantity.value} compares two deployments: name them, as deployment and beside")
        if not paired and self.beside is not None:
            raise ValueError(f"{self.quantity.value} is of one deployment: leave out beside")
        return self


class Outcome(Target):
    """What came out. None: it was not measured."""

    measured: float | None
    met: bool | None

    @property
    def name(self) -> str:
        """Of the quantity, and whose it is."""
        names = [self.quantity.value.replace("_", " "), *([self.deployment] if self.deployment else [])]
        return ", ".join(names) + (f" to {self.beside}" if self.beside else "")

    @property
    def bound(self) -> str:
        """What was asked."""
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"

    @property
    def verdict(self) -> str:
        """In a word or two."""
        return {True: "met", False: "missed", None: "not measured"}[self.met]


class ScoreDifference(Part):
    """Between the scores of two deployments on the same requests."""

    mix: str
    deployment: str
    beside: str
    scores: int
    largest: float
    mean: float


def outcome_of(target: Target, measurements: Sequence[Measurement]) -> Outcome:
    """Judge one target by what was measured."""
    measured = _MEASURES[target.quantity](target, _OfMix(measurements, target.mix))
    return Outcome(**target.model_dump(), measured=measured, met=_met(target, measured))


def score_differences(pipelines: Sequence[Measurement]) -> list[ScoreDifference]:
    """Of each to the first of the same mix."""
    first: dict[str, Measurement] = {}
    found = []
    for one in pipelines:
        if one.scores is None:
            continue
        beside = first.setdefault(one.mix, one)
        if beside is not one and (distances := _distances(one, beside)):
            largest, mean = max(distances), sum(distances) / len(distances)
            found.append(
                ScoreDifference(
                    mix=one.mix, deployment=one.deployment, beside=beside.deployment, scores=len(distances),
                    largest=round(largest, 6), mean=round(mean, 6),
                )
            )  # fmt: skip
    return found


_Measure = Callable[[Target, "_OfMix"], float | None]


def _met(target: Target, measured: float | None) -> bool | None:
    if measured is None:
        return None
    if target.at_least is not None:
        return measured >= target.at_least
    assert target.at_most is not None
    return measured <= target.at_most


def _distances(one: Measurement, other: Measurement) -> list[float]:
    """Of every score that both have. They were asked the same."""
    return [
        abs(score - beside)
        for row, row_beside in zip(one.scores or (), other.scores or (), strict=False)
        for score, beside in zip(row, row_beside, strict=True)
        if score is not None and beside is not None
    ]


class _OfMix:
    """What was measured of one mix."""

    def __init__(self, measurements: Iterable[Measurement], mix: str) -> None:
        self._measurements = [one for one in measurements if one.mix == mix]

    def of(self, kind: Kind, deployment: str | None) -> list[Measurement]:
        """Of every deployment where none is named."""
        return [one for one in self._measurements if one.kind is kind and deployment in (None, one.deployment)]

    def rate(self, kind: Kind, deployment: str | None = None) -> float | None:
        """The highest."""
        return max((one.requests_per_second for one in self.of(kind, deployment)), default=None)

    def p50s_ms(self, kind: Kind, deployment: str | None = None) -> dict[str, float]:
        """By deployment."""
        return {one.deployment: one.latency_ms["p50"] for one in self.of(kind, deployment) if one.latency_ms}

    def cost_us(self, role: str, deployment: str | None) -> float | None:
        """The lowest."""
        costs = [one.cpu_us_per_request for one in self.of(Kind.PIPELINE, deployment)]
        return min((cost[role] for cost in costs if cost), default=None)


def _ratio(kind: Kind) -> _Measure:
    return lambda target, found: _over(found.rate(Kind.PIPELINE, target.deployment), found.rate(kind))


def _over(rate: float | None, other: float | None) -> float | None:
    return None if rate is None or other is None else round(rate / other, 4)


def _gain(target: Target, found: _OfMix) -> float | None:
    return _over(found.rate(Kind.PIPELINE, target.deployment), found.rate(Kind.PIPELINE, target.beside))


def _score_difference(target: Target, found: _OfMix) -> float | None:
    both = [one for name in (target.deployment, target.beside) for one in found.of(Kind.PIPELINE, name) if one.scores]
    return max(_distances(*both), default=None) if len(both) == 2 else None  # noqa: PLR2004 -- it and the other


def _lone_over_engine_ms(target: Target, found: _OfMix) -> float | None:
    alone = found.p50s_ms(Kind.ENGINE_LONE)
    pipelines = found.p50s_ms(Kind.PIPELINE_LONE, target.deployment)
    added = [p50 - alone[name] for name, p50 in pipelines.items() if name in alone]
    return round(min(added), 3) if added else None


_MEASURES: Mapping[Quantity, _Measure] = {
    Quantity.RATE: lambda target, found: found.rate(Kind.PIPELINE, target.deployment),
    Quantity.TO_BEST_ENGINE: _ratio(Kind.ENGINE),
    Quantity.TO_TRANSFORMERS: _ratio(Kind.TRANSFORMERS),
    Quantity.GAIN: _gain,
    Quantity.SCORE_DIFFERENCE: _score_difference,
    Quantity.LONE_P50_MS: lambda target, found: min(
        found.p50s_ms(Kind.PIPELINE_LONE, target.deployment).values(), default=None
    ),
    Quantity.LONE_OVER_ENGINE_MS: _lone_over_engine_ms,
    Quantity.WORKER_US: lambda target, found: found.cost_us("worker", target.deployment),
    Quantity.EVENT_LOOP_US: lambda target, found: found.cost_us("event_loop", target.deployment),
}
