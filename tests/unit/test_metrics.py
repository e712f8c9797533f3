"""What the metrics are: documented, complete from the first scrape on, and named as Prometheus asks for."""

import re

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from consumer.health import Condition, Health, Lifecycle
from consumer.metrics import surroundings, work
from consumer.metrics.catalogue import METRICS
from consumer.metrics.definition import Kind, Metric
from consumer.metrics.exposition import Exposition, families
from consumer.metrics.merging import merge
from consumer.metrics.meters import Calls, Distribution, Distributions
from consumer.metrics.readings import Reading
from consumer.sections import HealthSettings
from schemas.errors import ErrorCode
from scripts import metrics_reference

UNITS = ("seconds", "bytes", "records", "sequences", "tokens", "ratio")
WITHOUT_UNIT = {
    *("partitions", "partitions_held", "lifecycle", "live", "ready", "condition", "stall_fence_closed"),
    *("build_info", "model_info", "dead_letters", "breaker_opens", "lag_reads_failed", "rebalances", "commits"),
    *("breaker_open_partitions", "activity"),
    *("sink_writes", "redis_refused_writes", "redis_lost_writes", "engine_deaths", "engine_restarts"),
}
"""Counts of things that name themselves, and states."""


class FakeClock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def unix_ms(self) -> int:
        return round(1000 * self.now)


def new_exposition() -> Exposition:
    return Exposition(Health(HealthSettings(), 60.0, 100.0), FakeClock(), "")


def test_the_page_says_what_the_definitions_say():
    assert metrics_reference.PAGE.read_text() == metrics_reference.page()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_has_the_prefix_its_unit_and_what_prometheus_asks_for(metric: Metric):
    assert re.fullmatch(r"scorestream_[a-z_]+", metric.name)
    assert "vllm" not in metric.name, "vLLM unregisters it"
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    bare = metric.name.removeprefix("scorestream_").removesuffix("_total")
    assert bare in WITHOUT_UNIT or bare.endswith(UNITS)
    assert metric.help.endswith(".")
    assert metric.meaning.endswith(".")


def test_no_two_metrics_share_a_name():
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_every_state_condition_and_code_has_its_series_at_the_first_scrape():
    body, content_type = new_exposition().expose("text/plain")
    samples = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in parse_text(body.decode())
        for one in family.samples
    }
    assert content_type.startswith("text/plain")
    assert samples["scorestream_lifecycle", "starting"] == 1
    assert samples["scorestream_live",] == 1
    assert samples["scorestream_ready",] == 0
    assert samples["scorestream_condition", "not_running"] == 1
    for state in Lifecycle:
        assert ("scorestream_lifecycle", state.value) in samples
    for condition in Condition:
        assert ("scorestream_condition", condition.value) in samples
    for code in ErrorCode:
        assert ("scorestream_refused_records_total", code.value) in samples
        assert (("scorestream_dead_letters_total", code.value) in samples) == code.dead_letter
    for metric in METRICS:
        for series in metric.known_series():
            name = metric.name + "_count" * (metric.kind is Kind.HISTOGRAM)
            assert (name, *sorted(series)) in samples
    assert samples["process_resident_memory_bytes",] > 0


def test_openmetrics_is_given_to_those_who_ask_for_it():
    body, content_type = new_exposition().expose("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    assert "scorestream_received_records" in {family.name for family in parse_openmetrics(body.decode())}


def test_a_value_for_a_series_that_was_not_defined_is_a_fault():
    with pytest.raises(ValueError, match="has no series"):
        list(families([Reading(surroundings.LIFECYCLE, ("dreaming",), 1)]))


def test_observations_count_the_same_one_by_one_and_in_bulk():
    values = [0.0, 0.001, 0.0011, 5.0, 59.9, 60.0, 61.0]
    alone = Distribution(work.DURATION_BUCKETS_SECONDS)
    bulk = Distributions(work.DURATION_BUCKETS_SECONDS, ("none", "all"))
    for value in values:
        alone.observe(value)
    bulk.observe(np.ones(len(values), dtype=np.intp), np.array(values))
    bulk.observe(np.array([], dtype=np.intp), np.array([]))
    by_series = dict(bulk.items())
    assert by_series["all"].counts == alone.counts
    assert by_series["all"].sum == pytest.approx(alone.sum)
    assert alone.counts[0] == 2, "a bucket's bound belongs to it"
    assert alone.counts[-1] == 1
    assert sum(by_series["none"].counts) == by_series["none"].sum == 0


def test_calls_that_overlap_are_busy_once_and_fail_one_by_one():
    clock = FakeClock()
    calls = Calls(clock.monotonic, work.DURATION_BUCKETS_SECONDS, (OSError,))

    def fail() -> None:
        with calls.call():
            clock.now += 2
            raise OSError("away")

    with calls.call():
        clock.now += 1
        with pytest.raises(OSError, match="away"):
            fail()
        clock.now += 4
        assert calls.busy_seconds == 7, "what is under way counts"
    clock.now += 8
    assert (calls.busy_seconds, calls.succeeded, calls.failed) == (7, 1, 1)
    assert calls.durations.sum == 2 + 7


def test_the_expositions_of_several_workers_become_one_in_which_each_series_names_its_worker():
    alone = new_exposition().expose("")[0].decode()
    together = merge({"0": alone, "1": alone}).decode()
    parts = {
        name: [
            (one.name, sorted(one.labels.items()), one.value) for family in parse_text(text) for one in family.samples
        ]
        for name, text in (("alone", alone), ("together", together))
    }
    expected = [
        (name, sorted([("worker", worker), *labels]), value)
        for worker in "01"
        for name, labels, value in parts["alone"]
    ]
    assert sorted(map(str, parts["together"])) == sorted(map(str, expected))
    helped = [line.split()[2] for line in together.splitlines() if line.startswith("# HELP")]
    assert len(helped) == len(set(helped)), "every family is told once"
