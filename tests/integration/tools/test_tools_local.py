"""The tools that start everything by themselves, with the scripted engine in place of a model."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from producer_tools.kafka import create_topics
from producer_tools.local.group import until_joined
from producer_tools.local.services import embedded_services

SCRIPTED = {"SCORESTREAM_ENGINE__KIND": "scripted", "SCORESTREAM_ENGINE__MODEL": "embedding"}
TOOL = [sys.executable, "-m", "consumer.entry"]


async def start(*arguments: str, settings: Mapping[str, str], folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *TOOL,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | settings | {"TMPDIR": str(folder)},
    )


def left_behind(folder: Path) -> list[str]:
    """Commands still running that were started with `folder` as their place for temporary files."""
    mark = f"TMPDIR={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text())
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_demo_scores_verifies_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = await start("demo", settings=SCRIPTED, folder=tmp_path)
    async with asyncio.timeout(120):
        stdout, stderr = await process.communicate()
    page = stdout.decode()
    assert process.returncode == 0, page + stderr.decode()
    assert "192 rerank and 300 embed requests" in page
    assert re.search(r"complete +yes", page)
    assert re.search(r"in Redis +yes +492 unexpired", page)
    assert re.search(r"latency p50 \d+ ms, p99 \d+ ms", page)
    assert max(map(len, page.splitlines())) <= 80
    assert (left_behind(tmp_path), files_in(tmp_path)) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_demo_that_is_interrupted_stops_what_it_started(tmp_path: Path, number: signal.Signals) -> None:
    process = await start("demo", "--keep", settings=SCRIPTED, folder=tmp_path)
    async with asyncio.timeout(120):
        while b"Running until Ctrl-C" not in await process.stdout.readline():
            assert process.returncode is None
    assert any("noida-db" in command for command in left_behind(tmp_path))
    process.send_signal(number)
    async with asyncio.timeout(60):
        await process.communicate()
    assert process.returncode == 130
    assert (left_behind(tmp_path), files_in(tmp_path)) == ([], [])


async def test_a_demo_whose_worker_cannot_start_says_why(tmp_path: Path) -> None:
    settings = SCRIPTED | {"SCORESTREAM_LIMITS__LANE_RECORDS": "1"}
    process = await start("demo", settings=settings, folder=tmp_path)
    async with asyncio.timeout(60):
        _, stderr = await process.communicate()
    assert process.returncode == 1
    assert "the worker ended with exit code 2" in stderr.decode()
    assert "limits.lane_records is 1" in stderr.decode()
    assert left_behind(tmp_path) == []


async def bench(folder: Path, *options: str, ends_with: int = 0) -> dict:
    process = await start("bench", *options, "--json", settings=SCRIPTED, folder=folder)
    async with asyncio.timeout(120):
        stdout, stderr = await process.communicate()
    assert process.returncode == ends_with, stderr.decode()
    assert left_behind(folder) == []
    report: dict = json.loads(stdout)
    return report


async def test_bench_starts_a_worker_and_measures_it_under_load_and_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--mix", "short", "--requests", "300", "--warmup", "20", "--concurrency", "32", "--one-at-a-time"]
    report = await bench(tmp_path, *options, "--no-ceiling", "--out", str(out))
    loaded, lone = report["measurements"]
    assert (loaded["kind"], loaded["requests"], loaded["statuses"]) == ("pipeline", 300, {"ok": 300})
    assert 32 <= loaded["tokens_per_request"] <= 96
    assert 0 < loaded["cpu_us_per_request"]["event_loop"] <= loaded["cpu_us_per_request"]["worker"]
    assert (lone["kind"], lone["requests"]) == ("pipeline_one_at_a_time", 100)
    assert 0 < lone["latency_ms"]["p50"] < loaded["latency_ms"]["max"]
    assert json.loads((out / "report.json").read_text()) == report
    assert "<svg" in (out / "report.html").read_text()


async def test_bench_measures_what_a_request_costs_while_others_wait(tmp_path: Path) -> None:
    options = ["--backlog", "3000", "--requests", "500", "--warmup", "100", "--workers", "2"]
    report = await bench(tmp_path, *options, "--no-ceiling")
    [measured] = report["measurements"]
    assert (measured["requests"], measured["lag_at_start"], measured["latency_ms"]) == (500, 2900, None)
    assert measured["engines"] == 2
    assert measured["cpu_us_per_request"]["worker"] > 0


SUITE = """
mixes: [words]
requests: 200
warmup: 0
deployments:
- {name: quick, measure: [pipeline]}
- {name: slow, measure: [engine, pipeline], settings: {engine.scripted_seconds_per_step: 0.05}}
targets:
- {quantity: requests_per_second, mix: words, deployment: slow, at_least: 1000000}
- {quantity: score_difference, mix: words, deployment: slow, beside: quick, at_most: 0}
- {quantity: to_best_engine, mix: words, at_least: 1}
"""


async def test_a_suite_goes_on_where_it_was_broken_off_and_tells_which_targets_were_met(tmp_path: Path) -> None:
    suite, out = tmp_path / "suite.yaml", tmp_path / "out"
    suite.write_text(SUITE)
    options = ["--suite", str(suite), "--out", str(out), "--resume"]
    first = await bench(tmp_path, *options, "--only", "quick")
    assert [one["deployment"] for one in first["measurements"]] == ["quick"]
    assert [one["met"] for one in first["targets"]] == [None, None, None]
    # There is no engine to measure, and the rest is measured all the same.
    await bench(tmp_path, *options, ends_with=1)
    report = await bench(tmp_path, *options, "--only", "slow: pipeline", ends_with=3)
    assert json.loads((out / "report.json").read_text()) == report
    assert report["measurements"][:1] == first["measurements"]
    assert [one["deployment"] for one in report["measurements"]] == ["quick", "slow"]
    assert [one["met"] for one in report["targets"]] == [False, True, None]
    assert report["targets"][1]["measured"] == 0


async def test_workers_that_join_one_after_the_other_on_the_embedded_broker_share_the_topic(tmp_path: Path) -> None:
    """Of itself it would wait forever for the first one, whose commit it refuses when the second one comes."""
    async with embedded_services(tmp_path) as services, AsyncExitStack() as running:
        await create_topics(services.bootstrap_servers, ["t"], partitions=4)
        members: list[AIOKafkaConsumer] = []
        for number in (1, 2):
            members.append(AIOKafkaConsumer("t", bootstrap_servers=services.bootstrap_servers, group_id="g"))
            running.push_async_callback(members[-1].stop)
            async with asyncio.timeout(100):
                await asyncio.gather(members[-1].start(), until_joined(services.bootstrap_servers, "g", number))
        assert [len(one.assignment()) for one in members] == [2, 2]
