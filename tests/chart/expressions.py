"""Which metrics and labels a PromQL expression uses, held against those that a worker has."""

import re

from consumer.metrics.catalogue import METRICS
from consumer.metrics.definition import Kind
from consumer.supervisor.metrics import WORKERS

FROM_THE_TARGET = {"namespace", "pod", "job", "instance", "le", "worker"}
"""Labels that Prometheus, the PodMonitor, histograms and the supervisor of several workers add."""
OF_PROMETHEUS = ("up", "process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")

Labels = dict[str, tuple[str, ...] | None]


def _series() -> dict[str, Labels]:
    """Name -> labels of every series of a scrape, each with its values where they are known."""
    known: dict[str, Labels] = {name: {} for name in OF_PROMETHEUS}
    for metric in (*METRICS, WORKERS):
        suffixes = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
        known |= {f"{metric.name}{suffix}": dict(metric.labels) for suffix in suffixes}
    return known


def complaints(expression: str) -> list[str]:
    """What of the expression no worker has; every metric in it must have a selector in braces."""
    known = _series()
    selected = SELECTOR.findall(expression)
    found = [] if selected else ["it selects nothing"]
    labels = set(FROM_THE_TARGET)
    for name, matchers in selected:
        if name not in known:
            found.append(f"there is no metric {name}")
            continue
        labels |= set(known[name])
        found += [problem for matcher in MATCHER.findall(matchers) for problem in _mismatches(known[name], *matcher)]
    bare = SELECTOR.sub("", expression)
    found += [f"{name} has no selector" for name in re.findall(r"\bscorestream_\w+", bare)]
    for grouping in GROUPING.findall(bare):
        found += [
            f"no metric of it has the label {each}" for each in re.findall(r"\w+", grouping) if each not in labels
        ]
    return found


def _mismatches(labels: Labels, label: str, operator: str, value: str) -> list[str]:
    if label in FROM_THE_TARGET:
        return []
    if label not in labels:
        return [f"there is no label {label}"]
    values = labels[label]
    wanted = value.split("|") if "~" in operator else [value]
    return [f"{label} is never {each}" for each in wanted if values is not None and each not in values]
