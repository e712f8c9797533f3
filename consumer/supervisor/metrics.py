"""What a supervisor answers to a scrape: the metrics of its workers, and where each of them is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily

from consumer.metrics.definition import gauge
from consumer.metrics.merging import merge
from consumer.supervisor.roster import Phase

WORKERS = gauge(
    "workers",
    "Workers of a supervisor (`scorestream run --workers N`), by where they are. Only it has this metric.",
    "down or starting for longer than a model takes to load: a worker dies again and again; the supervisor's log says "
    "with what it ended. One that does not run has no other series.",
    phase=tuple(phase.value for phase in Phase),
)


def exposition(phases: Iterable[Phase], texts: Mapping[str, str]) -> bytes:
    """In Prometheus's text format. `phases`: of all workers; `texts`: worker -> what it answered, of those that did."""
    counts = Counter(phases)
    workers = GaugeMetricFamily(WORKERS.name, WORKERS.help, labels=list(WORKERS.labels))
    for phase in Phase:
        workers.add_metric([phase.value], counts[phase])
    return merge(texts, [workers])
