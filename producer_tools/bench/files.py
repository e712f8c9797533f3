"""The report as files."""

from __future__ import annotations

from pathlib import Path

from producer_tools.bench.page import as_page
from producer_tools.bench.report import Report


def write_files(report: Report, folder: Path) -> None:
    """`report.json` and `report.html` in `folder`, which is made. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(report.as_json() + "\n")
    (folder / "report.html").write_text(as_page(report))
