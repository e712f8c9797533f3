"""Results for people: one line each, or one page."""

from __future__ import annotations

import sys

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from producer_tools.terminal import for_stream
from schemas.result import ResultItem, ScoreResult

MAX_ITEMS = 20
MAX_VECTOR_NUMBERS = 4


def one_line(result: ScoreResult) -> Text:
    """Id, task, status, the answer in short, and where the time went."""
    timings = result.timings_ms
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{_shown(result.id):<24} ", style="bold")
    line.append(f"{_shown(result.task or '-'):<9}")
    line.append(f"{_shown(result.status):<6}", style="green" if result.status == "ok" else "red")
    line.append(_shown(_in_short(result)))
    line.append(
        f"  {timings.total:.1f} ms = queue {timings.queue:.1f} + prepare {timings.prepare:.1f}"
        f" + engine {timings.engine:.1f} + emit {timings.emit:.1f}",
        style="dim",
    )
    return line


def full_page(result: ScoreResult) -> list[RenderableType]:
    """The answer's head, then its items as a table."""
    page: list[RenderableType] = [
        one_line(result),
        Text(_shown(f"{result.model.name} ({result.model.fingerprint}), scale {result.scale or 'none'}"), style="dim"),
    ]
    if result.error is not None:
        page.append(Text(_shown(f"{result.error.code}: {result.error.message}"), style="red"))
    if result.results:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("index", justify="right")
        table.add_column("id")
        table.add_column("answer")
        for item in result.results[:MAX_ITEMS]:
            table.add_row(str(item.index), Text(_shown(item.id or "")), Text(_shown(_answer(item))))
        page.append(table)
        if len(result.results) > MAX_ITEMS:
            page.append(Text(f"... and {len(result.results) - MAX_ITEMS} more", style="dim"))
    return page


def _shown(text: str) -> str:
    """As it may stand in a line of stdout; before anything measures how wide it is."""
    return for_stream(text, sys.stdout, kept="")


def _in_short(result: ScoreResult) -> str:
    if result.error is not None:
        return result.error.code
    failed = f", {len(result.failed)} failed" if result.failed else ""
    items = f"{len(result.results)} items{failed}"
    first = result.results[0] if result.results else None
    if first is None:
        return items
    return f"{result.scale or 'vector'} {_answer(first)}  {items}"


def _answer(item: ResultItem) -> str:
    if item.error is not None:
        return f"{item.error.code}: {item.error.message}"
    if item.score is not None:
        return f"{item.score:.4f}" + (f"  {item.document[:60]}" if item.document else "")
    if item.labels:
        return ", ".join(f"{label.label} {label.score:.4f}" for label in item.labels[:3])
    if isinstance(item.embedding, list):
        start = ", ".join(f"{number:.3f}" for number in item.embedding[:MAX_VECTOR_NUMBERS])
        return f"[{start}, ...] {len(item.embedding)} numbers"
    if isinstance(item.embedding, str):
        return f"base64, {len(item.embedding)} characters"
    return "data" if item.tokens is None else f"{len(item.tokens)} tokens"
