"""What docs/deploy.md shows is accepted by the chart; the runbook fits the alerts, incidents and codes."""

import re
from collections.abc import Iterator

import pytest
import yaml

from consumer.breaker import SUSPICIOUS
from consumer.health import Condition
from schemas.errors import ErrorCode
from scripts.chart.schema import ALERTS, CHART
from tests.chaos.incidents import catalogue
from tests.chaos.incidents.rehearsal import judged_runbook
from tests.chaos.incidents.rules import RUNBOOK_URL
from tests.chart.incidents import INCIDENTS, Incident
from tests.chart.rendering import render

PAGE = (CHART.parent.parent / "docs" / "deploy.md").read_text()
RUNBOOK = (CHART.parent.parent / "docs" / "operate.md").read_text()
BESIDE = dict(re.findall(r"^\| `(Scorestream\w+)`[^|]* \| (.*) \|$", RUNBOOK, re.MULTILINE))
"""Alert of a cause -> what the runbook says of the alerts that come with it."""
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_example_is_all_that_is_needed() -> None:
    assert render(values=yaml.safe_load(EXAMPLES[0]))


@pytest.mark.parametrize("example", EXAMPLES[1:], ids=lambda text: text.splitlines()[0])
def test_an_example_is_accepted_beside_the_first(example: str) -> None:
    assert render(CHART / "ci" / "minimal-values.yaml", values=yaml.safe_load(example))


def test_every_alert_has_a_section_of_the_runbook_and_every_section_an_alert() -> None:
    sections = re.findall(r"^### (Scorestream\w+)$", RUNBOOK, re.MULTILINE)
    assert sorted(sections) == sorted(yaml.safe_load(ALERTS.read_text()))
    # As an alert's runbook_url and other sections name them.
    anchors = re.findall(r"\(#(scorestream\w+)\)", RUNBOOK)
    assert set(anchors) <= {section.lower() for section in sections}


def test_the_runbook_says_what_each_reason_of_readyz_means() -> None:
    assert sorted(re.findall(r"^\| `([a-z_]+)` \|", RUNBOOK, re.MULTILINE)) == sorted(one.value for one in Condition)


@pytest.mark.parametrize("incident", catalogue.CATALOGUE, ids=lambda incident: incident.name)
def test_the_sections_of_an_incidents_alerts_speak_of_what_it_is(incident: catalogue.Incident) -> None:
    urls = {f"{RUNBOOK_URL}#{alert.lower()}" for alert in incident.alerts}
    assert judged_runbook(urls, incident.named) == []


@pytest.mark.parametrize(
    "incident", [one for one in INCIDENTS if len(one.fires) > 1], ids=lambda incident: incident.name
)
def test_the_runbook_tells_which_alerts_come_with_a_cause(incident: Incident) -> None:
    causes = incident.fires.keys() & BESIDE.keys()
    told = {alert for cause in causes for alert in re.findall(r"`(Scorestream\w+)`", BESIDE[cause])}
    assert incident.fires.keys() - causes <= told


def test_the_runbook_sends_every_error_code_one_way() -> None:
    branches = list(_branches("ScorestreamManyRefused"))
    assert sorted(code for branch in branches for code in branch) == sorted(ErrorCode)
    assert SUSPICIOUS in branches


def _branches(alert: str) -> Iterator[set[str]]:
    """What stands in code before the colons of each point of an alert's section."""
    section = RUNBOOK.split(f"### {alert}\n")[1].split("\n##")[0]
    for point in re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE):
        yield {
            code
            for codes in re.findall(r"((?:`[a-z_]+`, )*`[a-z_]+`):", point)
            for code in re.findall("[a-z_]+", codes)
        }
