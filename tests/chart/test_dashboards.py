"""The Grafana dashboard asks for what the workers have."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.chart.schema import CHART
from scripts.go_build import program
from tests.chart.expressions import complaints
from tests.chart.rendering import one, render

DASHBOARD = json.loads((CHART / "dashboards" / "scorestream.json").read_text())
GRAFANA_VARIABLES = {"$__rate_interval": "5m", "$namespace": "scoring", "$job": "scoring/ranking"}

GRAFANA_VARIABLE = re.compile(r"\$\w+")


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


@pytest.mark.parametrize("query", queries())
def test_every_query_names_a_metric_with_labels_that_exist(query: str) -> None:
    assert complaints(query) == []


def test_every_query_is_promql(tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = []
    for number, query in enumerate(queries()):
        expression = GRAFANA_VARIABLE.sub(lambda found: GRAFANA_VARIABLES[found[0]], query)
        rules.append({"record": f"panel:{number}", "expr": expression})
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run([program("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_a_legend_names_a_label_that_its_query_keeps() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            kept = re.search(r"^\w+\([^{]*by \(([^)]*)\)|by \(([^)]*)\)", target["expr"])
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert kept is None or label in "".join(group or "" for group in kept.groups())


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_chart_hands_it_to_grafanas_sidecar_as_it_is() -> None:
    objects = render(CHART / "ci" / "everything-values.yaml")
    config = one([each for each in objects if each["metadata"]["name"].endswith("-dashboards")], "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["scorestream.json"]) == DASHBOARD
