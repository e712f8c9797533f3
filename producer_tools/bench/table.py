"""The report for a terminal, at most 80 columns."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from producer_tools.bench.measurement import Kind, Measurement
from producer_tools.bench.report import Report


def as_table(report: Report) -> RenderableType:
    """Rates, then ratios, then what a request cost, then what was asked for."""
    parts: list[RenderableType] = [_rates(report)]
    if any(ratio.to_best_engine or ratio.to_transformers for ratio in report.ratios):
        parts += [Text(), _ratios(report)]
    costs = [one for one in report.measurements if one.cpu_us_per_request]
    if costs:
        parts += [Text(), _costs(costs)]
    if report.score_differences:
        parts += [Text(), _differences(report)]
    if report.targets:
        parts += [Text(), _targets(report)]
    parts += [Text(f"not measured: {one}", style="yellow") for one in report.skipped]
    return Group(*parts)


def _rates(report: Report) -> Table:
    table = _table("", "mix", "n", "requests/s", "p50 ms", "p99 ms", "p99.9", "max")
    for one in report.measurements:
        latency = one.latency_ms or {}
        table.add_row(
            _name(one),
            one.mix,
            str(one.engines),
            f"{one.requests_per_second:.1f}",
            *(f"{latency[name]:.1f}" if name in latency else "" for name in ("p50", "p99", "p99.9", "max")),
        )
    return table


def _name(one: Measurement) -> str:
    if one.kind is Kind.TRANSFORMERS:
        return one.deployment
    return f"{one.kind.value.replace('_one_at_a_time', ', lone')}, {one.deployment}"


def _ratios(report: Report) -> Table:
    table = _table("pipeline /", "mix", "own engine", "best engine", "transformers")
    for ratio in report.ratios:
        told = (ratio.to_own_engine, ratio.to_best_engine, ratio.to_transformers)
        table.add_row(ratio.deployment, ratio.mix, *("" if one is None else f"{one:.3f}" for one in told))
    return table


def _differences(report: Report) -> Table:
    table = _table("difference of scores", "mix", "scores", "largest", "mean")
    for one in report.score_differences:
        names = f"{one.deployment} to {one.beside}"
        table.add_row(names, one.mix, str(one.scores), f"{one.largest:.2g}", f"{one.mean:.2g}")
    return table


def _targets(report: Report) -> Table:
    table = _table("target", "mix", "asked", "measured", "")
    for one in report.targets:
        measured = "" if one.measured is None else f"{one.measured:g}"
        table.add_row(one.name, one.mix, one.bound, measured, one.verdict)
    return table


def _costs(measured: list[Measurement]) -> Table:
    roles = list(measured[0].cpu_us_per_request or {})
    table = _table("CPU us/request", "mix", *(role.replace("_", " ") for role in roles))
    for one in measured:
        cost = one.cpu_us_per_request or {}
        table.add_row(one.deployment, one.mix, *(f"{cost.get(role, 0):.0f}" for role in roles))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < 2 else "right")  # noqa: PLR2004 - names, then numbers
    return table
