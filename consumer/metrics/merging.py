"""The expositions of several workers as one: what a supervisor answers for all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

WORKER_LABEL = "worker"


def merge(texts: Mapping[str, str], before: Iterable[Family] = ()) -> bytes:
    """`texts`: worker -> its exposition in Prometheus's text format. Each series gets the label `worker`.

    `before`: families that stand before them, as they are. The others keep the order in which they come first; the
    samples of one are together, as the format asks.
    """
    families = {family.name: family for family in before}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text):
            together = families.setdefault(family.name, Family(family.name, family.documentation, family.type))
            for sample in family.samples:
                together.add_sample(sample.name, {WORKER_LABEL: worker} | sample.labels, sample.value)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(families))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, families: Mapping[str, Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        return iter(self._families.values())
