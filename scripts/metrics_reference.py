"""Write docs/metrics.md from the definitions, or with --check fail when it differs."""

import sys
from collections.abc import Iterator
from pathlib import Path

from consumer.metrics.catalogue import SECTIONS
from consumer.metrics.definition import Metric
from consumer.supervisor.metrics import WORKERS

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
HEAD = """# Metrics

Generated from `consumer/metrics/` by `make docs`; do not edit.

`GET /metrics` on `health.port`, beside `/livez` and `/readyz`, in Prometheus's text format, or OpenMetrics to who asks.
All series with known labels are there from the first scrape on, with 0. None has a label that grows with requests.
Beside these there are the `process_` metrics of Prometheus's client for Python (memory, processor time, open files):
they tell of the worker's own process, not of its engine's.

Of several workers under one supervisor (`scorestream run --workers N`) the supervisor's port has all of them; each
series then has a label `worker` with its number.

[observe.md](observe.md) has the queries to begin with, and what metrics cost. Where a metric is named without its
prefix, that is `scorestream_`.
"""
TABLE_HEAD = "| metric | type | labels | what it is | what it means for you |\n| --- | --- | --- | --- | --- |\n"


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for section, metrics in (SECTIONS | {"Several workers under one supervisor": (WORKERS,)}).items():
        parts.append(f"\n## {section}\n\n{TABLE_HEAD}")
        parts += map(_row, metrics)
    return "".join(parts)


def _row(metric: Metric) -> str:
    labels = "<br>".join(_labels(metric))
    return f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.help} | {metric.meaning} |\n"


def _labels(metric: Metric) -> Iterator[str]:
    for name, values in metric.labels.items():
        yield f"`{name}`" if values is None else f"`{name}`: {', '.join(values)}"


def main() -> int:
    """0 when the page is as generated."""
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            print(f"{PAGE.name} is not what the definitions say: run `make docs`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
