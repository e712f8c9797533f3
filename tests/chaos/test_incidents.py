"""Two incidents of the drill, short; `python -m tests.chaos incidents` has all of them, and lets pages come late."""

from pathlib import Path

import pytest

from tests.chaos.incidents.catalogue import CATALOGUE, SYMPTOMS, named
from tests.chaos.incidents.rehearsal import judged_runbook, rehearse
from tests.chaos.incidents.rules import RUNBOOK_URL, shortened_rules
from tests.chaos.incidents.scene import serving
from tests.chaos.running import log_tails
from tests.conftest import missing
from tests.services.process import ServiceFailed
from tests.services.prometheus import prometheus


def test_every_alert_of_the_chart_has_an_incident_that_has_to_raise_it_or_a_reason_why_not() -> None:
    rehearsed = {alert for incident in CATALOGUE for alert in incident.alerts}
    # The coordinator alone would have to be away, of several brokers; the lag alone unreadable.
    not_here = {"ScorestreamOutOfGroup", "ScorestreamLagUnknown", "ScorestreamSinkFailing", *SYMPTOMS}
    assert rehearsed | not_here == {rule["alert"] for rule in shortened_rules({})}
    assert not rehearsed & not_here


def test_a_runbook_that_leads_nowhere_or_speaks_of_something_else_is_found() -> None:
    url = f"{RUNBOOK_URL}#scorestreampartitionsheld"
    assert judged_runbook([url], ["Nothing is"]) == []
    assert judged_runbook([url], ["a comet"]) == ["the runbook's section does not speak of 'a comet'"]
    assert judged_runbook([url + "s"], []) == [f"runbook_url '{url}s' leads nowhere"]


@pytest.mark.kafka
@pytest.mark.redis
@pytest.mark.timeout(900)  # most of it is waiting for what has limits of its own
async def test_the_alert_of_an_incident_fires_names_its_runbook_and_is_over_with_its_cause(tmp_path: Path) -> None:
    """A Redis that is away, and a right in Kafka that was taken away, on a real worker under a real Prometheus."""
    try:
        prometheus()
    except ServiceFailed as reason:
        missing(str(reason))
    async with serving(tmp_path) as servers:
        for name in ("redis-away", "requests-refused"):
            outcome = await rehearse(servers, named(name), tmp_path / name, print, last_seconds=0)
            assert not outcome.wrong, "\n".join([*outcome.wrong, log_tails(tmp_path)])
