"""The command line: what it lists, what it says of itself, and how quickly."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from consumer.cli import app

GROUP = typer.main.get_command(app)
assert isinstance(GROUP, typer.core.TyperGroup)
INTERNAL = {"ceiling", "baseline", "tokens"}


def test_it_says_its_version() -> None:
    ended = CliRunner().invoke(app, ["--version"])
    assert (ended.exit_code, ended.stdout) == (0, f"scorestream {version('scorestream')}\n")


def test_commands_that_others_run_are_not_listed_and_work() -> None:
    listed = CliRunner().invoke(app, ["--help"]).stdout.split("Commands:")[1]
    names = {line.split()[0] for line in listed.splitlines() if line.strip()}
    assert names == {*GROUP.commands} - INTERNAL
    for name in INTERNAL:
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_what_is_listed_of_a_command_is_a_whole_sentence() -> None:
    listed = CliRunner().invoke(app, ["--help"]).stdout.split("Commands:")[1]
    assert [line for line in listed.splitlines() if line and not line.endswith(".")] == []
    assert "..." not in listed


@pytest.mark.parametrize("command", sorted({*GROUP.commands} - INTERNAL))
def test_help_has_no_words_of_the_language_it_is_written_in(command: str) -> None:
    helped = CliRunner().invoke(app, [command, "--help"])
    assert helped.exit_code == 0
    assert "list[" not in helped.stdout


def test_an_unknown_command_is_refused_with_the_nearest() -> None:
    refused = CliRunner().invoke(app, ["chekc"])
    assert refused.exit_code == 2
    assert "Did you mean 'check'?" in refused.output


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("kafka.group_id", "write PATH=VALUE, as in --set kafka.group_id=ranking"),
        ("kafka.gruop_id=g", "kafka.gruop_id: there is no such setting: did you mean kafka.group_id?"),
        ("kafak.group_id=g", "did you mean kafka.group_id?"),
        ("=x", "there is no such setting: the sections are kafka"),
    ],
)
def test_a_set_that_means_no_setting_is_refused(option: str, says: str) -> None:
    refused = CliRunner().invoke(app, ["config", "--set", option])
    assert refused.exit_code == 2
    assert says in " ".join(refused.output.split())


def test_a_set_without_a_value_does_not_repeat_what_may_be_a_secret() -> None:
    assert "hunter2" not in CliRunner().invoke(app, ["config", "--set", "redis.security.password:hunter2"]).output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands_and_options(shell: str) -> None:
    environment = os.environ | {
        "_SCORESTREAM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "scorestream re",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "scorestream re",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    code = "from consumer.cli import app; app(prog_name='scorestream')"
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "replay" in completed.stdout
    assert "run" not in completed.stdout
