"""What docs/deploy.md shows is accepted by the chart."""

import re

import pytest
import yaml

from consumer.health import Condition
from scripts.chart.schema import ALERTS, CHART
from tests.chart.rendering import render

PAGE = (CHART.parent.parent / "docs" / "deploy.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_example_is_all_that_is_needed() -> None:
    assert render(values=yaml.safe_load(EXAMPLES[0]))


@pytest.mark.parametrize("example", EXAMPLES[1:], ids=lambda text: text.splitlines()[0])
def test_an_example_is_accepted_beside_the_first(example: str) -> None:
    assert render(CHART / "ci" / "minimal-values.yaml", values=yaml.safe_load(example))


def test_every_alert_has_a_section_of_the_runbook_and_every_section_an_alert() -> None:
    runbook = (CHART.parent.parent / "docs" / "operate.md").read_text()
    sections = re.findall(r"^### (Scorestream\w+)$", runbook, re.MULTILINE)
    assert sorted(sections) == sorted(yaml.safe_load(ALERTS.read_text()))
    # As an alert's runbook_url and other sections name them.
    anchors = re.findall(r"\(#(scorestream\w+)\)", runbook)
    assert set(anchors) <= {section.lower() for section in sections}


def test_the_runbook_says_what_each_reason_of_readyz_means() -> None:
    runbook = (CHART.parent.parent / "docs" / "operate.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", runbook, re.MULTILINE)) == sorted(one.value for one in Condition)
