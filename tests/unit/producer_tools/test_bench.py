"""What the bench sends, what it makes of its measurements, and how it says what is wrong."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consumer.settings import load_settings
from producer_tools.bench.measurement import Kind, Measurement
from producer_tools.bench.mixes import NAMED, FanOutMix, Tokenisation
from producer_tools.bench.page import as_page
from producer_tools.bench.report import Report
from producer_tools.bench.suite import Deployment, Suite, read_suite
from producer_tools.bench.table import as_table
from producer_tools.cli import app
from producer_tools.console import ToolFailure, stdout_console
from schemas.wire import RequestLimits, parse_request


def measured(kind: Kind, rate: float, *, deployment: str = "one", engines: int = 1, mix: str = "short") -> Measurement:
    return Measurement(
        kind=kind, deployment=deployment, mix=mix, engines=engines, requests=10, seconds=1.0, requests_per_second=rate
    )


def report(*measurements: Measurement) -> Report:
    made = Report(scorestream="1", started_at="now", machine={"cpus": 2, "gpus": [], "python": "3"}, suite={})
    made.measurements.extend(measurements)
    return made


@pytest.mark.parametrize("tokenisation", [Tokenisation(4, 1), Tokenisation(11, 2)])
@pytest.mark.parametrize(
    ("name", "least", "most"), [("short", 32, 96), ("mid", 96, 256), ("long", 384, 640), ("varied", 32, 640)]
)
def test_a_mix_has_the_lengths_it_says(name: str, least: int, most: int, tokenisation: Tokenisation) -> None:
    lengths = []
    for _, value in NAMED[name].requests(300, seed=1, id_prefix="x", tokenisation=tokenisation):
        request = parse_request(value, RequestLimits())
        words = len(request.query.split()) + len(request.document.text.split())
        lengths.append(tokenisation.base_tokens + tokenisation.tokens_per_word * words)
    assert least - 1 <= min(lengths) < least + (most - least) / 10
    assert most - (most - least) / 10 < max(lengths) <= most + 1


def test_the_fan_out_mix_shares_more_than_sixty_percent_of_its_tokens() -> None:
    mix = NAMED["rerank50"]
    assert isinstance(mix, FanOutMix)
    for _, value in mix.requests(20, seed=1, id_prefix="x", tokenisation=Tokenisation()):
        request = parse_request(value, RequestLimits())
        assert len(request.documents) == 50
        own = sum(len(one.text.split()) for one in request.documents) / 50
        assert len(request.query.split()) / (len(request.query.split()) + own) >= 0.6


def test_the_same_seed_makes_the_same_texts() -> None:
    first, again = ([*NAMED["short"].requests(5, seed=3, id_prefix="x", tokenisation=Tokenisation())] for _ in range(2))
    assert first == again


def test_the_pipeline_is_compared_with_its_own_engines_the_best_ones_and_transformers_of_the_same_mix() -> None:
    made = report(
        measured(Kind.ENGINE, 100),
        measured(Kind.ENGINE, 400, engines=4),
        measured(Kind.ENGINE, 500, deployment="fp8", engines=4),
        measured(Kind.ENGINE, 9000, mix="long"),
        measured(Kind.TRANSFORMERS, 50, deployment="transformers, batch 32"),
        measured(Kind.PIPELINE, 380, engines=4),
        measured(Kind.PIPELINE, 90, mix="mid"),
    )
    one, alone = made.ratios
    assert (one.to_own_engine, one.to_best_engine, one.to_transformers) == (0.95, 0.76, 7.6)
    assert (alone.to_own_engine, alone.to_best_engine, alone.to_transformers) == (None, None, None)
    assert json.loads(made.as_json())["ratios"][0]["to_best_engine"] == 0.76


def test_the_page_needs_nothing_from_elsewhere_and_escapes_names() -> None:
    loaded = measured(Kind.PIPELINE, 10, deployment="<b>fp8 & co</b>").model_copy(
        update={
            "latency_ms": {"p50": 2.0, "max": 9.0},
            "latency_histogram": [(1.0, 50), (2.0, 49), (9.0, 1)],
            "stages_ms": {stage: {"mean": 1.0} for stage in ("queue", "prepare", "engine", "emit", "total")},
            "cpu_us_per_request": dict.fromkeys(
                ("worker", "event_loop", "engine", "supervisor", "load_generator"), 1.0
            ),
        }
    )
    page = as_page(report(loaded, measured(Kind.TRANSFORMERS, 5, deployment="transformers, batch 32")))
    assert page.count("<svg") == 4
    assert "&lt;b&gt;fp8 &amp; co&lt;/b&gt;" in page
    assert "<b>" not in page
    assert not re.search(r"(src|href|@import|url\()", page)


def test_a_report_without_any_latency_or_cost_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    made = report(measured(Kind.ENGINE, 12.5))
    made.skipped.append("one: pipeline: no time left")
    as_page(made)
    stdout_console().print(as_table(made))
    shown = capsys.readouterr().out
    assert "12.5" in shown
    assert "not measured: one: pipeline" in shown


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[3] / "examples" / "bench").glob("*.yaml")), ids=str)
def test_the_suites_that_are_shipped_can_be_read_and_their_settings_are_the_workers(file: Path) -> None:
    suite = read_suite(file)
    for one in suite.deployments:
        engine = load_settings({"engine.model": "m", **suite.settings, **one.settings}).engine
        assert "kv_cache_memory_bytes" in engine.args


def test_a_suite_is_read_and_its_mistakes_are_named(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text("mixes: [short]\nrequests: {short: 10}\ndeployments:\n- {name: a, workers: 2, engines: [1, 2]}\n")
    suite = read_suite(file)
    assert suite == Suite(
        mixes=["short"], requests={"short": 10}, deployments=[Deployment(name="a", workers=2, engines=[1, 2])]
    )
    assert (suite.requests_of("short"), suite.deployments[0].engine_counts) == (10, [1, 2])
    assert read_suite(file, {"engine.model": "m"}).settings == {"engine.model": "m"}
    file.write_text("mixes: [shortest]\ndeployments: []\ncolour: red\n")
    with pytest.raises(ToolFailure, match=r"(?s)mixes\.0.*deployments.*colour"):
        read_suite(file)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mix", "shortest"], "mixes.0"),
        (["--backlog", "200", "--warmup", "200"], "above warmup"),
        (["--resume"], "say with --out where the report is"),
        (["--suite", "nowhere.yaml"], "does not exist"),
        (["--only", "fp9"], "no part fp9"),
    ],
)
def test_a_wrong_option_of_the_bench_is_a_usage_error(options: list[str], said: str) -> None:
    ended = CliRunner().invoke(app, ["bench", *options])
    assert ended.exit_code == 2
    assert said in ended.output
