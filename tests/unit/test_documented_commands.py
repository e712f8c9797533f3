"""Commands of the documents run as they are written: they name their server, and options that there are."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from consumer.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "DESIGN.md", *sorted((ROOT / "docs").glob("*.md"))]
SERVER = {r"\bkcat (?=-)": r" -b \S+:\d+", r"\bkafka-[a-z-]+\.sh (?=--)": r" --bootstrap-server \S+:\d+"}
"""A tool with options, and what tells it where its server is."""
OWN = re.compile(r"\bscorestream ([a-z]+)((?: [^|`#\n]*)?)")


def commands(pattern: str) -> Iterator[tuple[str, str]]:
    """Where it stands, and all from it to the end of the line or of the code."""
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            for found in re.finditer(f"{pattern}[^`|]*", line):
                yield f"{page.name}:{number}", found[0]


@pytest.mark.parametrize("tool", SERVER)
def test_a_tool_of_kafkas_is_told_where_the_broker_is(tool: str) -> None:
    found = list(commands(tool))
    assert found
    assert [where for where, command in found if not re.search(SERVER[tool], command)] == []


def test_it_is_said_how_each_tool_of_the_runbook_is_given_credentials() -> None:
    pages = ("operate.md:", "dead-letters.md:")
    used = {
        command.split()[0]
        for pattern in (*SERVER, r"\bredis-cli (?=-)")
        for where, command in commands(pattern)
        if where.startswith(pages)
    }
    assert used == {
        *("kafka-consumer-groups.sh", "kafka-acls.sh", "kafka-transactions.sh", "kafka-topics.sh", "kafka-configs.sh"),
        *("kcat", "redis-cli"),
    }
    runbook, secure = ((ROOT / "docs" / name).read_text() for name in ("operate.md", "secure.md"))
    for told in (runbook.split("**Credentials.**")[1].split("**")[0], secure.split("## The tools of others")[1]):
        assert [tool for tool in used if f"`{tool}`" not in told] == []


def test_our_own_commands_have_the_options_that_they_are_given() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    unknown, known = [], 0
    for where, text in commands(OWN.pattern):
        name, arguments = OWN.match(text).groups()
        if name in group.commands:
            options = {option for parameter in group.commands[name].params for option in parameter.opts}
            given = re.findall(r"(?<!\S)--[a-z-]+", arguments)
            unknown += [f"{where}: {name} {option}" for option in given if option not in options]
            known += len(given)
    assert unknown == []
    assert known > 0
