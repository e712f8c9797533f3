"""The parts of a suite, a report that is resumed, and whether its targets were met."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from producer_tools.bench.beginning import empty_report, resumed_report
from producer_tools.bench.files import write_files
from producer_tools.bench.measurement import Kind, Measurement
from producer_tools.bench.page import as_page
from producer_tools.bench.parts import chosen_parts, parts_of
from producer_tools.bench.suite import Suite, read_suite
from producer_tools.bench.table import as_table
from producer_tools.bench.targets import Quantity
from producer_tools.console import ToolFailure, stdout_console

TWO = {
    "mixes": ["short", "mid"],
    "transformers": {"batch_size": 32, "mixes": ["short"]},
    "deployments": [
        {"name": "eight", "workers": 8, "engines": [8, 1]},
        {"name": "one", "measure": ["engine", "pipeline", "one_at_a_time"], "mixes": ["short"]},
    ],
}


def suite(**more: Any) -> Suite:
    return Suite.model_validate(TWO | more)


def measured(kind: Kind, rate: float, *, deployment: str = "one", engines: int = 1, **more: Any) -> Measurement:
    return Measurement(
        kind=kind, deployment=deployment, mix="short", engines=engines, requests=10, seconds=1.0,
        requests_per_second=rate, **more,
    )  # fmt: skip


def test_a_suite_starts_each_thing_once_and_transformers_after_the_first_deployment() -> None:
    assert [part.name for part in parts_of(suite())] == [
        "eight: engines",
        "eight: pipeline",
        "transformers",
        "one: engines",
        "one: lone engine",
        "one: pipeline",
    ]
    engines = parts_of(suite())[0]
    assert [(one.mix, one.engines) for one in engines.wanted] == [("short", 1), ("mid", 1), ("short", 8), ("mid", 8)]


def test_only_chooses_parts_or_whole_deployments_and_a_wrong_name_is_told_the_right_ones() -> None:
    chosen = chosen_parts(suite(), ["one", "eight: pipeline"])
    assert [part.name for part in chosen] == ["eight: pipeline", "one: engines", "one: lone engine", "one: pipeline"]
    assert [part.name for part in chosen_parts(suite(), ["transformers"])] == ["transformers"]
    with pytest.raises(ToolFailure, match=r"no part two; it has: eight: engines; .*transformers"):
        chosen_parts(suite(), ["two"])


def test_a_part_that_was_broken_off_wants_only_what_the_report_does_not_have() -> None:
    pipeline = parts_of(suite())[-1]
    there = [measured(Kind.PIPELINE, 5.0)]
    assert [one.kind for one in pipeline.missing(there)] == [Kind.PIPELINE_LONE]
    assert pipeline.missing([*there, measured(Kind.PIPELINE_LONE, 5.0)]) == []


def test_a_report_is_resumed_with_its_measurements_and_without_what_it_skipped(tmp_path: Path) -> None:
    assert resumed_report(suite(), tmp_path).measurements == []
    broken_off = empty_report(suite(minutes=1.0))
    broken_off.measurements.append(measured(Kind.PIPELINE, 5.0, scores=[[0.5, None]]))
    broken_off.skipped.append("one: engines: 1 minutes were over")
    write_files(broken_off, tmp_path)
    resumed = resumed_report(suite(minutes=9.0), tmp_path)
    assert (resumed.measurements, resumed.skipped) == (broken_off.measurements, [])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_a_report_of_another_suite_or_machine_is_not_resumed(tmp_path: Path) -> None:
    write_files(empty_report(suite()), tmp_path)
    with pytest.raises(ToolFailure, match="is of another suite"):
        resumed_report(suite(warmup=7), tmp_path)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"machine": {"gpus": ["another"]}}))
    with pytest.raises(ToolFailure, match="is of another machine"):
        resumed_report(suite(), tmp_path)
    file.write_text("{}")
    with pytest.raises(ToolFailure, match="no report of this version"):
        resumed_report(suite(), tmp_path)


COSTS = {"supervisor": 0.0, "worker": 240.0, "event_loop": 120.0, "engine": 9.0, "load_generator": 9.0}
MEASUREMENTS = [
    measured(Kind.ENGINE, 100.0),
    measured(Kind.ENGINE, 400.0, deployment="eight", engines=8),
    measured(Kind.TRANSFORMERS, 50.0, deployment="transformers, batch 32"),
    measured(Kind.PIPELINE, 380.0, deployment="eight", engines=8, scores=[[0.5, 0.25], [None]],
             cpu_us_per_request=COSTS | {"worker": 300.0}),
    measured(Kind.PIPELINE, 95.0, scores=[[0.5, 0.125], [0.75]],
             cpu_us_per_request=COSTS | {"event_loop": 130.0}),
    measured(Kind.ENGINE_LONE, 100.0, latency_ms={"p50": 9.0}),
    measured(Kind.PIPELINE_LONE, 80.0, latency_ms={"p50": 11.5}),
]  # fmt: skip
BOTH = {"deployment": "eight", "beside": "one"}


@pytest.mark.parametrize(
    ("asked", "measured_value", "met"),
    [
        ({"quantity": "requests_per_second", "at_least": 380}, 380, True),
        ({"quantity": "requests_per_second", "deployment": "one", "at_least": 96}, 95, False),
        ({"quantity": "to_best_engine", "at_least": 0.95}, 0.95, True),
        ({"quantity": "to_best_engine", "deployment": "one", "at_least": 0.95}, 0.2375, False),
        ({"quantity": "to_transformers", "at_least": 7.7}, 7.6, False),
        ({"quantity": "gain", **BOTH, "at_least": 4}, 4, True),
        ({"quantity": "score_difference", **BOTH, "at_most": 0.1}, 0.125, False),
        ({"quantity": "one_at_a_time_p50_ms", "at_most": 12}, 11.5, True),
        ({"quantity": "one_at_a_time_p50_ms_over_engine", "at_most": 2}, 2.5, False),
        ({"quantity": "one_at_a_time_p50_ms", "deployment": "eight", "at_most": 12}, None, None),
        ({"quantity": "worker_us_per_request", "at_most": 250}, 240, True),
        ({"quantity": "event_loop_us_per_request", "at_most": 119}, 120, False),
        ({"quantity": "requests_per_second", "mix": "long", "at_least": 1}, None, None),
    ],
)
def test_a_target_is_met_missed_or_not_measured(asked: dict[str, Any], measured_value: float, met: bool) -> None:
    report = empty_report(suite(targets=[{"mix": "short"} | asked]))
    report.measurements.extend(MEASUREMENTS)
    [outcome] = report.targets
    assert (outcome.measured, outcome.met) == (measured_value, met)


def test_every_quantity_has_a_target_in_the_suite_that_is_shipped_for_a_gpu() -> None:
    shipped = read_suite(Path(__file__).parents[3] / "examples" / "bench" / "one-gpu.yaml")
    assert {one.quantity for one in shipped.targets} == set(Quantity)


def test_the_targets_and_the_differences_of_scores_are_in_every_form_of_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [{"mix": "short", "quantity": "gain", "at_least": 5} | BOTH]
    report = empty_report(suite(targets=[*asked, {"mix": "mid", "quantity": "to_best_engine", "at_least": 0.5}]))
    report.measurements.extend(MEASUREMENTS)
    told = json.loads(report.as_json())
    assert [one["met"] for one in told["targets"]] == [False, None]
    [difference] = told["score_differences"]
    assert (difference["deployment"], difference["beside"], difference["scores"]) == ("one", "eight", 2)
    assert (difference["largest"], difference["mean"]) == (0.125, 0.0625)
    stdout_console().print(as_table(report))
    for text in (capsys.readouterr().out, as_page(report)):
        assert "missed" in text
        assert "not measured" in text
        assert "one to eight" in text


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"quantity": "gain", "at_least": 1}, "name them, as deployment and beside"),
        ({"quantity": "to_best_engine"}, "give at_least or at_most"),
        ({"quantity": "to_best_engine", "beside": "one", "at_least": 1}, "leave out beside"),
        ({"quantity": "to_best_engine", "deployment": "tow", "at_least": 1}, "there are eight, one"),
        ({"quantity": "speed", "at_least": 1}, "targets.0.quantity"),
    ],
)
def test_a_target_that_cannot_be_judged_is_refused(target: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(yaml.safe_dump(TWO | {"targets": [{"mix": "short"} | target]}))
    with pytest.raises(ToolFailure, match=said):
        read_suite(file)


def test_two_deployments_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="a name of its own"):
        suite(deployments=[{"name": "a"}, {"name": "a"}])
