"""What a check found, what it means for a start, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from consumer.errors import SettingsInvalid


class Level(StrEnum):
    """What a finding means for a start, in the words that `check` prints."""

    OK = "ok"
    WARN = "WARN"
    """A worker starts, and logs it: something does not do what was probably meant, or costs more than it need."""
    FAIL = "FAIL"
    """No worker starts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. Without `ok` it keeps a worker from starting; a `fix` of what is ok makes it a warning."""

    name: str
    ok: bool
    found: str
    fix: str = ""

    @property
    def level(self) -> Level:
        """Follows from the fields."""
        if not self.ok:
            return Level.FAIL
        return Level.WARN if self.fix else Level.OK

    def __str__(self) -> str:
        """In one line, without the level."""
        return f"{self.name}: {self.found}: {self.fix}" if self.fix else f"{self.name}: {self.found}"


def worst(findings: Iterable[Finding]) -> Level:
    """The level of all together."""
    return max((finding.level for finding in findings), key=list(Level).index, default=Level.OK)


class Refused(SettingsInvalid):
    """Checks that failed, one per line."""

    def __init__(self, findings: Sequence[Finding], message: str | None = None) -> None:
        """`message`: where the findings' own words are not the best ones."""
        super().__init__("\n".join(map(str, findings)) if message is None else message)
        self.findings = findings


def refuse(findings: Iterable[Finding]) -> None:
    """Raises Refused with every finding that is not ok."""
    failed = [finding for finding in findings if finding.level is Level.FAIL]
    if failed:
        raise Refused(failed)


def as_lines(findings: Sequence[Finding]) -> str:
    """For people: a line each, and its fix below."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<4} {finding.name}: {finding.found}\n")
        if finding.fix:
            lines.append(f"     fix: {finding.fix}\n")
    return "".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """For programs: one document, with the level of all together."""
    listed = [
        {"name": finding.name, "level": finding.level, "found": finding.found, "fix": finding.fix}
        for finding in findings
    ]
    return json.dumps({"level": worst(findings), "findings": listed}, indent=2) + "\n"
