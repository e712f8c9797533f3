"""`/metrics`: the readings in Prometheus's text format, or in OpenMetrics where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from consumer.clock import Clock
from consumer.health import Health
from consumer.metrics import surroundings
from consumer.metrics.catalogue import METRICS
from consumer.metrics.definition import Kind, Metric
from consumer.metrics.meters import Distribution
from consumer.metrics.processor_time import ProcessorTimes
from consumer.metrics.readings import Observed, Reading, read_process, read_worker


class Exposition(Collector):
    """All metrics of one worker process, in a registry of its own: vLLM empties the default one of what is its own.

    `observed` is set once there is a flow; until then its metrics are there with 0.
    """

    def __init__(self, health: Health, clock: Clock, engine_version: str) -> None:
        self.observed: Observed | None = None
        self._health = health
        self._clock = clock
        self._build = Reading(surroundings.BUILD_INFO, (version("scorestream"), engine_version), 1)
        self._processor = ProcessorTimes()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def expose(self, accept: str) -> tuple[bytes, str]:
        """Text and content type, for the value of an Accept header."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Family]:
        """Every metric, whether or not there is something to say of it."""
        return families(self._readings())

    def describe(self) -> Iterator[Family]:
        """For the registry: the names alone."""
        return families(())

    def _readings(self) -> Iterator[Reading]:
        yield self._build
        yield from read_process(self._health, self._processor, self._clock.monotonic())
        if self.observed is not None:
            yield from read_worker(self.observed, self._clock)


def families(readings: Iterable[Reading]) -> Iterator[Family]:
    """Every metric of the catalogue with its known series, 0 where nothing was read.

    Raises ValueError for a reading that the catalogue does not provide for. A bug.
    """
    values: dict[Metric, dict[tuple[str, ...], float | Distribution]] = {
        metric: {series: Distribution(metric.buckets) if metric.buckets else 0.0 for series in metric.known_series()}
        for metric in METRICS
    }
    for metric, series, value in readings:
        metric.check(series)
        values[metric][series] = value
    for metric, by_series in values.items():
        yield _family(metric, by_series)


def _family(metric: Metric, values: dict[tuple[str, ...], float | Distribution]) -> Family:
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=list(metric.labels))
        for series, value in values.items():
            assert isinstance(value, Distribution)
            bounds = [*map(floatToGoString, value.bounds), "+Inf"]
            counts = accumulate(value.counts)
            histogram.add_metric(series, list(zip(bounds, counts, strict=True)), value.sum)
        return histogram
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    plain = kind(metric.name, metric.help, labels=list(metric.labels))
    for series, value in values.items():
        assert not isinstance(value, Distribution)
        plain.add_metric(series, value)
    return plain
