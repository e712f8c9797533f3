"""The alerts of the PrometheusRule that the chart renders, as Prometheus itself evaluates them."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.chart.schema import ALERTS, CHART
from scripts.go_build import program
from tests.chart.expressions import complaints
from tests.chart.incidents import CALM, INCIDENTS, Incident
from tests.chart.rendering import NAMESPACE, RELEASE, one, render

MINIMAL = CHART / "ci" / "minimal-values.yaml"
DEFINED = yaml.safe_load(ALERTS.read_text())


@cache
def rules() -> dict[str, dict[str, Any]]:
    """Alert -> its rule, with the chart's defaults."""
    objects = render(MINIMAL, values={"metrics": {"prometheusRule": {"enabled": True}}})
    return {rule["alert"]: rule for rule in one(objects, "PrometheusRule")["spec"]["groups"][0]["rules"]}


def promtool(*arguments: str | Path) -> None:
    ran = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_chart_renders_every_alert() -> None:
    assert set(rules()) == set(DEFINED)


@pytest.mark.parametrize("alert", sorted(DEFINED))
def test_an_alert_asks_for_metrics_that_exist_of_this_release_alone(alert: str) -> None:
    expression = rules()[alert]["expr"]
    assert complaints(expression) == []
    assert "SELECTOR" not in expression
    assert "THRESHOLD" not in expression
    assert expression.count("{") == expression.count(
        f'{{namespace="{NAMESPACE}",job="{NAMESPACE}/{RELEASE}-scorestream"'
    )


def test_every_alert_has_an_incident_in_which_it_fires() -> None:
    assert {alert for incident in INCIDENTS for alert in incident.fires} == set(DEFINED)


@pytest.mark.parametrize("incident", [*INCIDENTS, CALM], ids=lambda incident: incident.name)
def test_an_incident_raises_its_alerts_and_no_other(incident: Incident, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": list(rules().values())}]}))
    target = f'namespace="{NAMESPACE}",job="{NAMESPACE}/{RELEASE}-scorestream"'
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series.replace("{", f"{{{target},"), "values": values}
                    for series, values in incident.series().items()
                ],
                # A firing alert is a sample of this series: so is said what fires and that nothing else does.
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": f"{incident.minutes}m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{alert}"}}', "value": count}
                            for alert, count in incident.fires.items()
                        ],
                    },
                    *(
                        {
                            "expr": f'count(ALERTS{{alertstate="firing",{matchers}}})',
                            "eval_time": f"{incident.minutes}m",
                            "exp_samples": [{"labels": "{}", "value": 1}],
                        }
                        for matchers in incident.labels
                    ),
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", tmp_path / "test.yaml")


def test_values_change_an_alert_or_leave_it_out() -> None:
    objects = render(CHART / "ci" / "everything-values.yaml")
    changed = {rule["alert"]: rule for rule in one(objects, "PrometheusRule")["spec"]["groups"][0]["rules"]}
    behind = changed["ScorestreamBehind"]
    assert behind["expr"].endswith("> 60")
    assert behind["for"] == "5m"
    assert behind["labels"] == {"severity": "critical", "team": "search"}
    assert behind["annotations"]["runbook_url"] == "https://docs.example/operate#scorestreambehind"
    # Switched off by the values; and no worker at all is as it should be where KEDA may scale to none.
    assert set(DEFINED) - set(changed) == {"ScorestreamDeadLetters", "ScorestreamAbsent"}
