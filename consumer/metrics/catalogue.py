"""All metrics of the worker, in the order of the page and of the exposition."""

from consumer.metrics import surroundings, work
from consumer.metrics.definition import Metric

SECTIONS: dict[str, tuple[Metric, ...]] = work.SECTIONS | surroundings.SECTIONS
METRICS: tuple[Metric, ...] = tuple(metric for section in SECTIONS.values() for metric in section)
