"""The chart's own alerts, in less time: a factor shortens every `for` and every range, and nothing else."""

import re
from collections.abc import Mapping
from typing import Any

from scripts.chart.schema import CHART
from tests.chart.rendering import NAMESPACE, RELEASE, one, render

FACTOR = 20
"""Five minutes become fifteen seconds, and a scrape every two seconds is one every forty."""
JOB = f"{NAMESPACE}/{RELEASE}-scorestream"
RUNBOOK_URL = "https://docs.example/operate"
"""Where docs/operate.md were published."""
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(\d+)([smh])")
_RANGE = re.compile(r"\[(\d+[smh])\]")

Rule = dict[str, Any]


def shortened_rules(thresholds: Mapping[str, float]) -> list[Rule]:
    """What the chart renders, shortened. `thresholds`: alert -> what takes the place of the chart's own."""
    alerts = {name: {"threshold": threshold} for name, threshold in thresholds.items()}
    wanted = {"enabled": True, "runbookUrl": RUNBOOK_URL, "alerts": alerts}
    objects = render(CHART / "ci" / "minimal-values.yaml", values={"metrics": {"prometheusRule": wanted}})
    rules: list[Rule] = one(objects, "PrometheusRule")["spec"]["groups"][0]["rules"]
    return [
        rule
        | {
            "for": _shorter(rule["for"]),
            "expr": _RANGE.sub(lambda found: f"[{_shorter(found[1])}]", rule["expr"]),
        }
        for rule in rules
    ]


def _shorter(duration: str) -> str:
    found = _DURATION.fullmatch(duration)
    assert found, duration
    return f"{int(found[1]) * _UNIT_SECONDS[found[2]] * 1000 // FACTOR}ms"
