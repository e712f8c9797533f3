"""The report as one HTML page that needs no other file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from producer_tools.bench.measurement import Gpu, Kind, Measurement
from producer_tools.bench.report import Report
from producer_tools.bench.svg import COLOURS, bars, percentiles, stacked

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; color: #1c1e21 }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 1.8em 0 .5em }
table { border-collapse: collapse }
td, th { padding: .2em .8em .2em 0; text-align: right; border-bottom: 1px solid #eee }
td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) { text-align: left }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #333 }
p.note { color: #666; margin: .3em 0 } pre { background: #f6f6f6; padding: .8em; overflow-x: auto }
"""
_COLOUR = {kind: COLOURS[number] for number, kind in enumerate(Kind)}
STAGES = ("queue", "prepare", "engine", "emit")
"""Of a result's `timings_ms`; what is left of `total` is the way out."""


def as_page(report: Report) -> str:
    """HTML."""
    machine = report.machine
    gpus = escape(", ".join(machine["gpus"]) or "no GPU")
    parts = [
        "<h1>scorestream bench</h1>",
        f"<p>scorestream {escape(report.scorestream)}, {report.started_at}, {machine['cpus']} processors, {gpus}</p>",
        *_targets(report),
        *_rates(report),
        *_ratios(report),
        *_latencies(report),
        *_stages(report),
        *_costs(report),
        *_gpus(report),
        *_differences(report),
        *_skipped(report),
        "<h2>What was asked for</h2>",
        f"<pre>{escape(json.dumps(report.suite, indent=1))}</pre>",
    ]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>scorestream bench</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>\n{body}\n</body></html>\n"


def _name(one: Measurement) -> str:
    return one.deployment if one.kind is Kind.TRANSFORMERS else f"{one.deployment}: {_KINDS[one.kind]} x {one.engines}"


_KINDS = {
    Kind.PIPELINE: "pipeline",
    Kind.PIPELINE_LONE: "pipeline, one at a time",
    Kind.ENGINE: "engine alone",
    Kind.ENGINE_LONE: "engine, one at a time",
    Kind.TRANSFORMERS: "transformers",
}


def _targets(report: Report) -> Iterable[str]:
    if report.targets:
        yield "<h2>Targets</h2>"
        rows = [
            (one.name, one.mix, one.bound, "" if one.measured is None else f"{one.measured:g}", one.verdict)
            for one in report.targets
        ]
        yield _table(("", "mix", "asked", "measured", ""), rows)


def _rates(report: Report) -> Iterable[str]:
    loaded = [one for one in report.measurements if one.kind not in (Kind.PIPELINE_LONE, Kind.ENGINE_LONE)]
    for mix in dict.fromkeys(one.mix for one in loaded):
        some = [one for one in loaded if one.mix == mix]
        tokens = next((one.tokens_per_request for one in some if one.tokens_per_request), None)
        yield f"<h2>Requests/s, {escape(mix)}" + (f" ({tokens:.0f} tokens per request)" if tokens else "") + "</h2>"
        rows = [(_name(one), one.requests_per_second, f"{one.requests_per_second:.1f}/s") for one in some]
        yield bars(rows, [_COLOUR[one.kind] for one in some])


def _ratios(report: Report) -> Iterable[str]:
    if not report.ratios:
        return
    yield "<h2>The pipeline, compared</h2>"
    rows = [
        (one.deployment, one.mix, *(_ratio(it) for it in (one.to_own_engine, one.to_best_engine, one.to_transformers)))
        for one in report.ratios
    ]
    yield _table(("deployment", "mix", "to its own engines", "to the best engines", "to transformers"), rows)


def _latencies(report: Report) -> Iterable[str]:
    timed = [one for one in report.measurements if one.latency_ms]
    if not timed:
        return
    yield "<h2>Latency</h2>"
    yield '<p class="note">With a closed loop it tells how long the queue is that the load makes; with a rate, or one '
    yield "at a time, how long a caller waits.</p>"
    curves = {f"{_name(one)}, {one.mix}": one.latency_histogram for one in timed if one.latency_histogram}
    if curves:
        yield percentiles(curves)
    columns = list(dict.fromkeys(name for one in timed for name in one.latency_ms or {}))
    rows = [(_name(one), one.mix, *(_ms(one, column) for column in columns)) for one in timed]
    yield _table(("", "mix", *(f"{column} ms" for column in columns)), rows)


def _stages(report: Report) -> Iterable[str]:
    rows = [
        (
            f"{_name(one)}, {one.mix}",
            {stage: one.stages_ms[stage]["mean"] for stage in STAGES if stage in one.stages_ms},
        )
        for one in report.measurements
        if one.stages_ms
    ]
    if rows:
        yield "<h2>Where a request's time goes (mean, in the worker)</h2>"
        yield stacked(rows, "ms")


def _costs(report: Report) -> Iterable[str]:
    rows = []
    for one in report.measurements:
        if cost := one.cpu_us_per_request:
            loop = cost["event_loop"]
            split = {"event loop": loop, "worker, other threads": max(0.0, cost["worker"] - loop)}
            split |= {role.replace("_", " "): cost[role] for role in ("engine", "supervisor", "load_generator")}
            rows.append((f"{_name(one)}, {one.mix}", split))
    if rows:
        yield "<h2>Processor time per request</h2>"
        yield stacked(rows, "us")


def _gpus(report: Report) -> Iterable[str]:
    rows = [(_name(one), one.mix, *_seen(gpu)) for one in report.measurements for gpu in one.gpus]
    if rows:
        yield "<h2>GPUs</h2>"
        yield _table(("", "mix", "GPU", "busy", "memory"), rows)


def _seen(gpu: Gpu) -> tuple[str, str, str]:
    busy = "" if gpu.busy_percent is None else f"{gpu.busy_percent:.0f} %"
    return gpu.name, busy, f"{gpu.max_memory_mib:.0f} MiB"


def _differences(report: Report) -> Iterable[str]:
    if report.score_differences:
        yield "<h2>Differences of scores</h2>"
        yield '<p class="note">Of the same requests, to the first deployment that scored them.</p>'
        rows = [
            (f"{one.deployment} to {one.beside}", one.mix, str(one.scores), f"{one.largest:.2g}", f"{one.mean:.2g}")
            for one in report.score_differences
        ]
        yield _table(("", "mix", "scores", "largest", "mean"), rows)


def _skipped(report: Report) -> Iterable[str]:
    if report.skipped:
        yield "<h2>Not measured</h2>"
        yield "".join(f"<pre>{escape(one)}</pre>" for one in report.skipped)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _ms(one: Measurement, column: str) -> str:
    value = (one.latency_ms or {}).get(column)
    return "" if value is None else f"{value:.1f}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in columns)
    body = "\n".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"
