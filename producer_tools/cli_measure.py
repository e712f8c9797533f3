"""The commands that measure: arguments only, as in cli.py."""
# ruff: noqa: PLC0415, FBT002, PLR0917, ARG001 - typer reads options from the parameters of these functions

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from producer_tools import options
from producer_tools.console import Mismatch, ToolFailure, bad_parameter, run_tool, say, stdout_console, write_lines

if TYPE_CHECKING:
    from producer_tools.bench.mixes import Mix
    from producer_tools.bench.parts import SuitePart
    from producer_tools.bench.report import Report
    from producer_tools.bench.suite import Suite
    from producer_tools.generate import GeneratedTask


def bench(
    mix: Annotated[
        list[str] | None,
        typer.Option(metavar="MIX", help="short, mid, long, varied (pairs by tokens) or rerank50; may be repeated."),
    ] = None,
    task: Annotated[str, typer.Option(help="Without --mix: rerank, score, classify or embed.")] = "score",
    items: Annotated[int, typer.Option(min=1, help="Without --mix: texts per request, except for score.")] = 10,
    words: Annotated[int, typer.Option(min=1, help="Without --mix: mean words per text.")] = 40,
    requests: Annotated[int, typer.Option(min=1, help="Measured requests of one mix.")] = 2000,
    warmup: Annotated[int, typer.Option(min=0, help="Requests before these.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed makes the same texts.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way at once.")] = 512,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Requests/s, instead of --concurrency.")] = None,
    backlog: Annotated[int, typer.Option(min=0, help="Publish so many first, then start the worker.")] = 0,
    lone: Annotated[bool, typer.Option("--one-at-a-time", help="Also the latency of a request that is alone.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="As for `scorestream run --workers`.")] = 1,
    engines: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Engines alone; may be repeated. Default: --workers.")
    ] = None,
    mps: Annotated[bool, typer.Option("--mps", help="Share the GPU through CUDA MPS.")] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="A setting of the worker, as for `run`.")
    ] = None,
    ceiling: Annotated[bool, typer.Option(help="Measure the engine alone on the same requests.")] = True,
    transformers: Annotated[int | None, typer.Option(min=1, help="Measure transformers in batches of so many.")] = None,
    suite: Annotated[
        Path | None,
        typer.Option(help="YAML file of several deployments, instead of the above.", exists=True, dir_okay=False),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of the suite, this part or deployment only; may be repeated."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.001, help="Begin nothing new after so long.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the report in --out: what it has is not measured again.")
    ] = False,
    existing: Annotated[bool, typer.Option("--existing", help="Measure workers that run already.")] = False,
    pid: Annotated[int | None, typer.Option(help="With --existing: of a worker or supervisor on this machine.")] = None,
    group_id: Annotated[
        str, typer.Option(envvar="SCORESTREAM_KAFKA__GROUP_ID", help="With --existing: the workers' consumer group.")
    ] = "scorestream",
    bootstrap_servers: options.BootstrapServers = options.BOOTSTRAP_SERVERS,
    request_topic: options.RequestTopic = options.REQUEST_TOPIC,
    result_topic: options.ResultTopic = options.RESULT_TOPIC,
    redis_url: options.RedisUrl = options.REDIS_URL,
    prefix: options.RedisPrefix = options.REDIS_PREFIX,
    out: Annotated[Path | None, typer.Option(help="Folder for report.json and report.html.")] = None,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Measure rate, latency and processor time of the pipeline.

    Beside the engine alone, and transformers. Starts its own broker and worker (engine settings from environment and
    --config, else the packaged MiniLM). Exit code 3: a target of the suite was missed.
    """
    from pydantic import ValidationError

    from producer_tools.bench import existing as running_already
    from producer_tools.bench.beginning import empty_report, resumed_report
    from producer_tools.bench.mixes import NAMED, WordsMix
    from producer_tools.bench.parts import chosen_parts
    from producer_tools.bench.suite import Suite, problems, read_suite
    from producer_tools.load import Target

    if resume and out is None:
        raise typer.BadParameter("say with --out where the report is", param_hint="--resume")

    custom = WordsMix("words", task_named(task), items, words)
    settings = dict(_setting(one) for one in setting or ())
    measured = [*(["engine"] if ceiling else []), "pipeline", *(["one_at_a_time"] if lone else [])]
    deployment = {"name": "as set", "workers": workers, "engines": engines, "mps": mps, "measure": measured}
    asked = {
        "settings": settings, "mixes": mix or [custom.name], "requests": requests, "warmup": warmup, "seed": seed,
        "concurrency": concurrency, "rate": rate, "backlog": backlog, "minutes": minutes,
        "transformers": {"batch_size": transformers} if transformers else None, "deployments": [deployment],
    }  # fmt: skip
    try:
        chosen = read_suite(suite, settings, minutes) if suite else Suite.model_validate(asked)
        parts = chosen_parts(chosen, only or [])
    except ValidationError as invalid:
        raise typer.BadParameter("; ".join(problems(invalid))) from None
    except ToolFailure as wrong:
        raise bad_parameter(wrong) from None
    mixes = {**NAMED, custom.name: custom}

    show = partial(_show, out=out, as_json=as_json)

    async def measure() -> None:
        if existing:
            target = Target(options.brokers(bootstrap_servers), request_topic, result_topic)
            place = running_already.Place(target, group_id, options.redis_server(redis_url), prefix, pid)
            show(await running_already.measure(chosen, mixes, place, say))
        else:
            report = resumed_report(chosen, out) if resume and out is not None else empty_report(chosen)
            await _measure_suite(chosen, mixes, parts, report, out, show)

    run_tool(measure())


async def _measure_suite(
    suite: Suite,
    mixes: Mapping[str, Mix],
    parts: Sequence[SuitePart],
    report: Report,
    out: Path | None,
    show: Callable[[Report], None],
) -> None:
    """Raises Mismatch when a target was missed, ToolFailure when something could not be measured."""
    from producer_tools.bench.files import write_files
    from producer_tools.bench.run import Progress, run_suite

    def write(grown: Report) -> None:
        if out is not None:
            write_files(grown, out)

    try:
        await run_suite(suite, mixes, parts, Progress(report, say, write))
    finally:
        if report.measurements:
            show(report)
    if missed := [one for one in report.targets if one.met is False]:
        raise Mismatch(f"{len(missed)} targets were missed")


def _show(report: Report, *, out: Path | None, as_json: bool) -> None:
    from producer_tools.bench.files import write_files
    from producer_tools.bench.table import as_table

    if out is not None:
        write_files(report, out)
    if as_json:
        write_lines(report.as_json().encode())
    else:
        stdout_console().print(as_table(report))


def _setting(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text}: write PATH=VALUE, as in engine.max_num_seqs=512", param_hint="--set")
    return path, value


def task_named(name: str) -> GeneratedTask:
    """The task of that name, or a usage error."""
    from producer_tools.generate import GeneratedTask

    try:
        return GeneratedTask(name)
    except ValueError:
        raise typer.BadParameter(f"{name}: give {', '.join(GeneratedTask)}", param_hint="--task") from None


def tune(
    model: Annotated[str, typer.Option(help="Hugging Face name or folder; default: that of the settings.")] = "",
    lengths: Annotated[str, typer.Option(help="Tokens of a scored pair, least:most.")] = "32:96",
    requests: Annotated[
        Path | None, typer.Option(help="JSONL file of requests of your own, instead.", exists=True, dir_okay=False)
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=8, help="Made-up requests of one measurement; default: some seconds' work.")
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="No measurement begins after so long.")] = 10.0,
    allow_fp8: Annotated[
        bool, typer.Option("--allow-fp8", help="Also try fp8, which changes scores a little.")
    ] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="A setting to keep, as for `run`.")
    ] = None,
    config: options.Config = None,
) -> None:
    """Measure a ladder of engine settings on this machine.

    Prints those to use, as YAML for `run --config`.
    """
    from producer_tools.bench.mixes import Span
    from producer_tools.tune import run as tool

    least, colon, most = lengths.partition(":")
    if not (colon and least.isdigit() and most.isdigit() and 0 < int(least) <= int(most)):
        raise typer.BadParameter(f"{lengths}: write least:most, as in 32:96", param_hint="--lengths")
    settings = dict(_setting(one) for one in setting or ())
    wish = tool.Wish(model, settings, requests, Span(int(least), int(most)), count, minutes, allow_fp8)

    async def recommend() -> None:
        write_lines((await tool.tune(wish, say)).encode().rstrip())

    run_tool(recommend())
