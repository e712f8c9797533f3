"""Three plots as inline SVG: groups of bars, stacked bars, latency by percentile. No script, no other file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

COLOURS = ("#3b6fb6", "#e08a2e", "#4e9a57", "#b8434e", "#7d5ba6", "#6b7280", "#2a9d9d", "#a0742c")
WIDTH = 860
_RIGHT, _ROW = 150, 22
_LABEL, _CHARACTER = (120, 400), 6.6
"""Least and most room for the labels on the left; how wide a character is, about."""

Rows = Sequence[tuple[str, float, str]]
"""(label, value, what stands behind the bar)."""


def bars(rows: Rows, colours: Sequence[str]) -> str:
    """One horizontal bar per row."""
    longest = max((value for _, value, _ in rows), default=0.0) or 1.0
    left = _room(label for label, _, _ in rows)
    parts = []
    for number, ((label, value, note), colour) in enumerate(zip(rows, colours, strict=True)):
        y = number * _ROW
        width = (WIDTH - left - _RIGHT) * value / longest
        parts.append(_text(left - 8, y + 15, label, "end"))
        parts.append(f'<rect x="{left:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{colour}"/>')
        parts.append(_text(left + width + 6, y + 15, note))
    return _svg(parts, len(rows) * _ROW + 4)


def stacked(rows: Sequence[tuple[str, Mapping[str, float]]], unit: str) -> str:
    """One horizontal bar per row, made of named parts; the same name has the same colour everywhere."""
    names = list(dict.fromkeys(name for _, parts in rows for name in parts))
    colour = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    longest = max((sum(parts.values()) for _, parts in rows), default=0.0) or 1.0
    drawn, top = _legend(colour)
    left = _room(label for label, _ in rows)
    for number, (label, parts) in enumerate(rows):
        y, x = top + number * _ROW, left
        drawn.append(_text(left - 8, y + 15, label, "end"))
        for name, value in parts.items():
            width = (WIDTH - left - _RIGHT) * value / longest
            title = f"<title>{escape(name)}: {_number(value)} {unit}</title>"
            drawn.append(
                f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{colour[name]}">'
                f"{title}</rect>"
            )
            x += width
        drawn.append(_text(x + 6, y + 15, f"{_number(sum(parts.values()))} {unit}"))
    return _svg(drawn, top + len(rows) * _ROW + 4)


def percentiles(curves: Mapping[str, Sequence[tuple[float, int]]]) -> str:
    """Latency by percentile, as HDR plots show it: each nine takes as much room. Curves are buckets (ms, count)."""
    left, height, width = 70, 300, WIDTH - 100
    nines = max((math.log10(sum(count for _, count in curve)) for curve in curves.values() if curve), default=1.0)
    nines = max(1.0, nines)
    most = max((upper for curve in curves.values() for upper, _ in curve), default=1.0)
    colour = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(curves)}
    drawn, top = _legend(colour)
    for step in range(5):
        y = top + height - height * step / 4
        drawn.append(f'<line x1="{left}" y1="{y}" x2="{left + width}" y2="{y}" stroke="#ddd"/>')
        drawn.append(_text(left - 6, y + 4, f"{_number(most * step / 4)} ms", "end"))
    for exponent in range(int(nines) + 1):
        x = left + width * exponent / nines
        drawn.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + height}" stroke="#eee"/>')
        drawn.append(_text(x, top + height + 16, f"{100 * (1 - 10.0**-exponent):.{max(0, exponent - 2)}f} %", "middle"))
    for name, curve in curves.items():
        total, seen, points = sum(count for _, count in curve), 0, []
        for upper, count in curve:
            # Up to here the bucket's own: a step, drawn at its end.
            seen += count
            share = math.log10(total / max(total - seen, 1))
            points.append(f"{left + width * min(share, nines) / nines:.1f},{top + height * (1 - upper / most):.1f}")
        # Colours come again, then broken.
        broken = ' stroke-dasharray="6 3"' if list(curves).index(name) >= len(COLOURS) else ""
        line = f'fill="none" stroke="{colour[name]}" stroke-width="2"{broken}'
        drawn.append(f'<polyline points="{" ".join(points)}" {line}/>')
    return _svg(drawn, top + height + 24)


def _room(labels: Iterable[str]) -> float:
    """For the longest of them, on the left."""
    least, most = _LABEL
    return min(most, max(least, 16 + _CHARACTER * max(map(len, labels), default=0)))


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - else it would have an exponent


def _legend(colour: Mapping[str, str]) -> tuple[list[str], int]:
    """As many lines as it takes, and their height."""
    drawn, x, y = [], 4.0, 0
    for name, fill in colour.items():
        room = 40 + 7 * len(name)
        if x > 4 and x + room > WIDTH:  # noqa: PLR2004 - something stands in this line already
            x, y = 4.0, y + _ROW
        drawn.append(f'<rect x="{x:.0f}" y="{y + 3}" width="12" height="12" fill="{fill}"/>')
        drawn.append(_text(x + 17, y + 14, name))
        x += room
    return drawn, y + _ROW


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: float) -> str:
    drawn = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img">\n{drawn}\n</svg>'
