"""`scorestream tune`, with a stub in the place of the engines: what it starts, and what it recommends."""

import json
import os
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from consumer.settings import load_settings
from producer_tools.bench import engines
from producer_tools.bench.mixes import PairMix, Span
from producer_tools.console import ToolFailure
from producer_tools.tune import run as tuning
from producer_tools.tune.ladder import starts
from producer_tools.tune.run import Wish, recommended, tune
from producer_tools.tune.search import Tried


@pytest.mark.parametrize("settings", [{}, {"engine.model": "some/model", "engine.args.seed": "7"}])
async def test_what_is_recommended_is_a_config_file_of_the_worker(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [started, *_] = starts(1, 1000, {})
    candidate = started.with_settings(max_num_seqs=1024, args__async_scheduling=True)
    file = tmp_path / "tuned.yaml"
    file.write_text(recommended(Tried(candidate, 500.0), Tried(started, 400.0), {"engine.model": "m"} | settings))
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(file))
    loaded = load_settings()
    assert loaded.engine.max_num_seqs == 1024
    assert loaded.engine.args["async_scheduling"] is True
    assert loaded.engine.model == settings.get("engine.model", "m")


async def test_what_is_recommended_names_the_model_that_was_measured_also_where_nobody_named_one(
    stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SCORESTREAM_ENGINE__MODEL", "SCORESTREAM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "tuned.yaml"
    file.write_text(await tune(Wish("", {}, None, Span(32, 58), 40, minutes=5, allow_fp8=False), lambda _text: None))
    monkeypatch.setenv("SCORESTREAM_CONFIG", str(file))
    loaded = load_settings()
    assert (Path(loaded.engine.model) / "config.json").exists()
    assert loaded.engine.args == {"enforce_eager": True}
    assert loaded.engine.max_num_seqs == 512
    monkeypatch.setenv("SCORESTREAM_ENGINE__MAX_NUM_SEQS", "64")
    said: list[str] = []
    text = await tune(Wish("a/model", {}, None, Span(32, 58), 40, minutes=5, allow_fp8=False), said.append)
    assert yaml.safe_load(text)["engine"]["model"] == "a/model"
    assert any("SCORESTREAM_ENGINE__MAX_NUM_SEQS is set in the environment" in line for line in said)
    assert any(f"put these settings into {file}" in line for line in said)


async def test_where_the_first_settings_do_not_run_nothing_else_is_tried_and_the_reason_is_told(stub: Path) -> None:
    said: list[str] = []
    settings = {"engine.max_num_seqs": "1024"}
    with pytest.raises(ToolFailure, match="the engine does not run: out of memory"):
        await tune(Wish("a/model", settings, None, Span(32, 58), 40, minutes=5, allow_fp8=False), said.append)
    assert said == ["1 engine: does not run (out of memory)"]


STUB = """#!{python}
import json, os, re, sys, time
command, told = sys.argv[1], " ".join(sys.argv)
if command == "tokens":
    for line in open(sys.argv[2]):
        texts = json.loads(line)
        print(json.dumps({{"tokens": 3 + len(texts["query"].split()) + len(texts["document"].split())}}))
    raise SystemExit
with open("{folder}/runs.jsonl", "a") as runs:
    print(json.dumps(sys.argv), file=runs)
lengths = [len(json.loads(line)["document"].split()) for line in open(sys.argv[2])]
assert 20 <= min(lengths) and max(lengths) <= 45, lengths
seqs = int((re.findall(r"engine.max_num_seqs=(\\d+)", told) or ["256"])[0])
if seqs > 512:
    print("out of memory", file=sys.stderr)
    raise SystemExit(1)
print("a library says hello")
share = (1.5 if "quantization=fp8" in told else 1) * (1.2 if "CUDA_MPS_PIPE_DIRECTORY" in os.environ else 1)
for engines in map(int, re.findall(r"--engines (\\d+)", told)):
    if engines > 5:
        print("no room for so many", file=sys.stderr)
        raise SystemExit(1)
    print(json.dumps({{"requests_per_second": round((100 * engines + seqs) * share)}}), flush=True)
    if os.path.exists("{folder}/hang"):
        open("{folder}/hang", "w").write(str(os.getpid()))
        time.sleep(1000)
raise SystemExit(os.path.exists("{folder}/fail"))
"""


def wish(settings: Mapping[str, str] = MappingProxyType({}), **others: Any) -> Wish:
    asked: dict[str, Any] = {"requests": None, "count": 40, "minutes": 5, "allow_fp8": False}
    return Wish("a/model", settings, tokens=Span(32, 58), **asked | others)


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of the worker's commands, on a machine without a GPU."""
    file = tmp_path / "scorestream"
    file.write_text(STUB.format(python=sys.executable, folder=tmp_path))
    file.chmod(0o755)
    monkeypatch.setattr(engines, "scorestream_command", lambda: str(file))
    monkeypatch.setattr(tuning, "machine", lambda: {"gpus": []})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return file


@pytest.fixture
def on_a_gpu(stub: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with one GPU and an MPS daemon. The folder of what the stub wrote."""
    daemon = stub.with_name("nvidia-cuda-mps-control")
    daemon.write_text("#!/bin/sh\n")
    daemon.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(tuning, "machine", lambda: {"gpus": ["one"]})
    return stub.parent


def runs(folder: Path) -> list[list[str]]:
    """The settings of each start."""
    started = map(json.loads, (folder / "runs.jsonl").read_text().splitlines())
    return [[value for name, value in pairwise(one) if name == "--set"] for one in started]


async def test_tune_runs_engines_as_child_processes_and_steps_over_what_does_not_run(stub: Path) -> None:
    said: list[str] = []
    text = await tune(Wish("a/model", {}, None, Span(32, 58), 40, minutes=5, allow_fp8=False), said.append)
    assert yaml.safe_load(text)["engine"] == {"model": "a/model", "max_num_seqs": 512}
    assert "# measured, engine alone: 612.0 requests/s" in text
    assert any("max_num_seqs=1024: does not run (out of memory)" in line for line in said)


async def test_on_a_gpu_engines_are_added_to_those_that_run_until_no_more_fit(on_a_gpu: Path) -> None:
    said: list[str] = []
    text = await tune(wish(), said.append)
    given = f"args.kv_cache_memory_bytes={4 << 30}"
    assert said[:4] == [
        f"1 engine, {given}: 356.0 requests/s",
        f"2 engines, {given}: 456.0 requests/s",
        f"4 engines, {given}: 656.0 requests/s",
        f"8 engines, {given}: does not run (no room for so many)",
    ]
    assert "# before: 356.0 requests/s (1 engine" in text
    assert yaml.safe_load(text)["workers"] == {"count": 4, "mps": "on"}


async def test_fp8_and_mps_are_measured_with_the_best_number_and_recommended(on_a_gpu: Path) -> None:
    found = yaml.safe_load(await tune(wish(allow_fp8=True), lambda _text: None))
    assert found["workers"] == {"count": 4, "mps": "on"}
    assert found["engine"]["args"] == {"kv_cache_memory_bytes": 4 << 30, "quantization": "fp8"}


async def test_every_candidate_has_settings_that_the_worker_takes(on_a_gpu: Path) -> None:
    await tune(wish({"engine.max_model_len": "2048"}, allow_fp8=True), lambda _text: None)
    started = runs(on_a_gpu)
    assert any("engine.max_num_seqs=1024" in one for one in started)
    for one in started:
        loaded = load_settings(dict(setting.split("=", 1) for setting in one))
        assert loaded.engine.max_model_len == 2048


async def test_settings_that_are_given_stay_also_those_within_an_object(on_a_gpu: Path) -> None:
    given = {
        "engine.args": '{"quantization": "awq", "kv_cache_memory_bytes": 99, "hf_overrides": {"a": {"b": 1}}}',
        "engine": '{"max_num_seqs": 64}',
        "workers.count": "2",
        "workers.mps": "on",
        "workers.join_timeout_seconds": "900",
    }
    said: list[str] = []
    found = yaml.safe_load(await tune(wish(given, allow_fp8=True), said.append))
    overrides = {"a": {"b": 1}}
    assert found["engine"]["args"] == {
        "quantization": "awq",
        "kv_cache_memory_bytes": 99,
        "hf_overrides": overrides,
    }
    assert found["engine"]["max_num_seqs"] == 64
    assert found["workers"] == {"count": 2, "mps": "on", "join_timeout_seconds": "900"}
    assert all(line.startswith("2 engines, MPS") for line in said)
    for one in runs(on_a_gpu):
        assert {"engine.args.quantization=awq", f"engine.args.hf_overrides={json.dumps(overrides)}"} <= set(one)
        assert "engine.args.kv_cache_memory_bytes=99" in one


@pytest.mark.parametrize(
    ("visible", "settings", "counts"),
    [
        (None, {}, [4, 8]),
        ("2", {}, [1, 2, 4, 8]),
        ("2,3,-1,4", {}, [2, 4, 8]),
        (None, {"engine.args.tensor_parallel_size": "4"}, [1, 2, 4, 8]),
        ("", {}, [1]),
    ],
)
async def test_there_is_an_engine_for_each_gpu_that_a_worker_sees(
    visible: str | None, settings: dict[str, str], counts: list[int], stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "machine", lambda: {"gpus": ["a", "b", "c", "d"]})
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    said: list[str] = []
    await tune(wish(settings), said.append)
    tried = [int(line.split()[0]) for line in said if ": " in line]
    assert sorted(set(tried)) == counts


async def test_no_engine_is_without_a_request(on_a_gpu: Path) -> None:
    file = on_a_gpu / "five.jsonl"
    one = json.dumps({"query": "q", "document": "word " * 30})
    file.write_text(f"{one}\n" * 5)
    said: list[str] = []
    found = yaml.safe_load(await tune(wish(requests=file), said.append))
    assert [int(line.split()[0]) for line in said[:4]] == [1, 2, 4, 5]
    assert found["workers"]["count"] == 5


async def test_engines_are_gone_when_the_time_is_over_between_two_numbers(on_a_gpu: Path) -> None:
    hang = on_a_gpu / "hang"
    hang.touch()
    said: list[str] = []
    text = await tune(wish(minutes=0), said.append)
    assert "# measured, engine alone: 356.0 requests/s (1 engine" in text
    assert [line for line in said if line.startswith("no time left for engines: ")]
    with pytest.raises(ProcessLookupError):
        os.kill(int(hang.read_text()), 0)


async def test_what_fails_after_it_was_measured_is_told_and_counts(on_a_gpu: Path) -> None:
    (on_a_gpu / "fail").touch()
    said: list[str] = []
    text = await tune(wish({"workers.count": "4"}), said.append)
    assert yaml.safe_load(text)["workers"]["count"] == 4
    assert any("did not end well after it was measured" in line for line in said)


async def test_a_daemon_that_does_not_quit_when_the_time_is_over_is_told(on_a_gpu: Path) -> None:
    (on_a_gpu / "nvidia-cuda-mps-control").write_text('#!/bin/sh\nread said && [ "$said" = quit ] && exit 7\nexit 0\n')
    said: list[str] = []
    text = await tune(wish({"workers.mps": "on"}, minutes=0), said.append)
    assert "# measured, engine alone: 427.0 requests/s (1 engine, MPS" in text
    assert any("did not end well after it was measured (nvidia-cuda-mps-control ended with" in one for one in said)


@pytest.mark.parametrize(
    ("lengths", "count", "made"),
    [(Span(32, 58), None, 500_000 // 45), (Span(32, 58), 77, 77), (Span(1, 1), None, 100_000)],
)
async def test_made_up_requests_are_as_many_as_have_so_many_tokens(
    lengths: Span, count: int | None, made: int, stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    make = PairMix.requests

    def requests(_mix: PairMix, count: int, **others: Any) -> Any:
        counted.append(count)
        return make(PairMix("tune", (Span(32, 58),)), 40, **others)

    monkeypatch.setattr(PairMix, "requests", requests)
    await tune(Wish("a/model", {}, None, lengths, count, minutes=5, allow_fp8=False), lambda _text: None)
    assert counted == [made]
