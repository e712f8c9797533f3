"""The report as files."""

from __future__ import annotations

from pathlib import Path

from producer_tools.bench.page import as_page
from producer_tools.bench.report import Report

REPORT, PAGE = "report.json", "report.html"


def write_files(report: Report, folder: Path) -> None:
    """`report.json` and `report.html` in `folder`, which is made. Never half of one. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((REPORT, report.as_json() + "\n"), (PAGE, as_page(report))):
        whole = folder / f".{name}.new"
        whole.write_text(text)
        whole.replace(folder / name)
