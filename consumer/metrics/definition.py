"""How a metric is defined. Pure data: the values come from readings.py, the text from exposition.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product

PREFIX = "scorestream_"
"""Of every name. vLLM unregisters whatever has "vllm" in its name."""


class Kind(StrEnum):
    """Prometheus's types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric.

    `name`: with its unit, and _total for a counter. `help`: what it is. `meaning`: when an operator worries, and what
    to do then. `labels`: each with all its values, so that all series are there from the first scrape on; None where
    only the cluster knows them. `buckets`: upper bounds of a histogram, without the last, which is infinite.
    """

    name: str
    kind: Kind
    help: str
    meaning: str
    labels: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()

    def known_series(self) -> Iterator[tuple[str, ...]]:
        """Label values of every series that exists from the start; none where a label is open."""
        values = [values for values in self.labels.values() if values is not None]
        if len(values) == len(self.labels):
            yield from product(*values)

    def check(self, series: tuple[str, ...]) -> None:
        """Raises ValueError for label values that are not among those of the definition. A bug."""
        known = list(self.labels.values())
        if len(series) != len(known) or any(
            allowed is not None and value not in allowed for value, allowed in zip(series, known, strict=True)
        ):
            raise ValueError(f"{self.name} has no series {series}")


def counter(name: str, help_text: str, meaning: str, **labels: tuple[str, ...] | None) -> Metric:
    """Only ever grows while the process lives."""
    return Metric(f"{PREFIX}{name}_total", Kind.COUNTER, help_text, meaning, labels)


def gauge(name: str, help_text: str, meaning: str, **labels: tuple[str, ...] | None) -> Metric:
    """As it is now."""
    return Metric(PREFIX + name, Kind.GAUGE, help_text, meaning, labels)


def histogram(
    name: str, help_text: str, meaning: str, buckets: tuple[float, ...], **labels: tuple[str, ...] | None
) -> Metric:
    """How many observations were at most so large, and their sum."""
    return Metric(PREFIX + name, Kind.HISTOGRAM, help_text, meaning, labels, buckets)
