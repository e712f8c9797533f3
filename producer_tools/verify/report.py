"""An audit, for people and for programs."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from producer_tools.verify.audit import Audit
from producer_tools.verify.tally import Finding


def kept(audit: Audit, max_duplicates: int | None) -> bool:
    """Whether every promise was kept. Duplicates are allowed unless `max_duplicates` says how many."""
    return not audit.findings.counts and (max_duplicates is None or audit.tally.duplicates <= max_duplicates)


def as_json(audit: Audit, max_duplicates: int | None) -> dict[str, Any]:
    """One JSON object."""
    tally = audit.tally
    return {
        "ok": kept(audit, max_duplicates),
        "topic": tally.topic,
        "requests": tally.requests,
        "results": tally.results,
        "codes": dict(sorted(tally.codes.items())),
        "dead_letters": tally.dead_letters,
        "duplicates": tally.duplicates,
        "dead_letter_duplicates": tally.dead_letter_duplicates,
        "outside": tally.outside,
        "redis_checked": audit.redis_checked,
        "findings": {
            finding.name.lower(): {"count": count, "first": [str(where) for where in audit.findings.examples[finding]]}
            for finding, count in sorted(audit.findings.counts.items())
        },
        "seconds": round(audit.seconds, 3),
    }


def as_table(audit: Audit, max_duplicates: int | None) -> Table:
    """A table of at most 80 columns: what was counted, and each promise with its verdict."""
    tally, counts = audit.tally, audit.findings.counts
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(width=10)
    table.add_column(width=9, justify="right")
    table.add_column(overflow="fold")

    def verdict(name: str, broken: set[Finding], meaning: str) -> None:
        count = sum(counts[one] for one in broken)
        state = Text("NO", style="red") if count else Text("yes", style="green")
        table.add_row(name, state, f"{count} broken: {meaning}" if count else meaning)

    codes = ", ".join(f"{count} {code}" for code, count in tally.codes.most_common())
    table.add_row("requests", str(tally.requests), f"on {tally.topic}")
    table.add_row("results", str(tally.results), codes)
    table.add_row("dead", str(tally.dead_letters), "dead letters")
    excess = max_duplicates is not None and tally.duplicates > max_duplicates
    duplicates = Text(str(tally.duplicates), style="red" if excess else "")
    table.add_row("duplicates", duplicates, "results beyond the first per request")
    verdict(
        "complete", {Finding.UNANSWERED, Finding.RESULT_MISSING}, "every request ended in a result or a dead letter"
    )
    verdict(
        "ordered",
        {Finding.OUT_OF_ORDER, Finding.WRONG_PARTITION},
        "first results follow the requests, on the same partitions",
    )
    verdict(
        "matched",
        {Finding.WRONG_ID, Finding.RESULT_OF_NO_REQUEST, Finding.RESULT_UNEXPECTED},
        "every result carries its own request's id",
    )
    verdict(
        "buried",
        {Finding.DEAD_LETTER_MISSING, Finding.DEAD_LETTER_UNEXPECTED},
        "dead letters for exactly the codes that call for one",
    )
    if audit.redis_checked is not None:
        verdict(
            "in Redis",
            {Finding.REDIS_MISSING, Finding.REDIS_DIFFERS},
            f"{audit.redis_checked} unexpired results, the same bytes as on the topic",
        )
    for finding, examples in sorted(audit.findings.examples.items()):
        table.add_row("", str(counts[finding]), f"{finding.value}: {', '.join(map(str, examples))}")
    return table
