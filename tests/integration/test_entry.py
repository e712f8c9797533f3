"""The program as odd surroundings start it: descriptors that are closed, warnings that are errors, no SIGHUP."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "consumer.entry"]
SCRIPTED = {
    "SCORESTREAM_ENGINE__KIND": "scripted",
    "SCORESTREAM_ENGINE__MODEL": "embedding",
    "SCORESTREAM_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "SCORESTREAM_REDIS__URL": "redis://127.0.0.1:1/0",
    "SCORESTREAM_HEALTH__PORT": "0",
}


def done(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | SCRIPTED | variables
    return subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "exit_code", "warnings"),
    [
        (["--help"], 0, "error"),
        (["config"], 0, "e"),
        (["check"], 2, "error"),
        (["run"], 2, "error"),
        (["run"], 2, "ignore,error::DeprecationWarning"),
        (["watch"], 1, "error"),
    ],
)
def test_a_warning_of_a_library_is_no_end(arguments: list[str], exit_code: int, warnings: str) -> None:
    ended = done(*arguments, PYTHONWARNINGS=warnings)
    assert ended.returncode == exit_code, ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_processes_that_the_program_starts_do_not_end_of_a_warning_either() -> None:
    code = (
        "import consumer.entry as entry, multiprocessing.util, os, warnings; entry.let_no_warning_end_the_program();"
        "warnings.warn('harmless'); flags = multiprocessing.util._args_from_interpreter_flags();"
        "print(os.environ['PYTHONWARNINGS'], flags)"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONWARNINGS": "error::UserWarning,ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "error" not in ended.stdout
    assert ended.stdout.startswith("default::UserWarning,ignore")


@pytest.mark.parametrize(
    ("command", "exit_code", "closed"),
    [
        ("config", 0, "0<&-"),
        ("config", 0, "1>&-"),
        ("check", 2, "2>&-"),
        ("check", 2, "0<&- 1>&- 2>&-"),
        ("run", 2, "0<&- 1>&- 2>&-"),
        ("watch", 1, "0<&- 1>&- 2>&-"),
    ],
)
def test_closed_descriptors_change_nothing_but_that_nobody_reads(command: str, exit_code: int, closed: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, command],
        env=os.environ | SCRIPTED,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == exit_code, ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_descriptor_that_was_closed_is_no_socket(tmp_path: Path) -> None:
    """What is written to stderr, by whatever library, must not reach a server."""
    code = (
        "import consumer.entry as entry, os, socket, sys; entry.open_closed_descriptors();"
        "taken = socket.socket().fileno(); targets = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)];"
        f"open({str(tmp_path / 'found')!r}, 'w').write(f'{{taken}} {{targets}}');"
        "print('x'); print('x', file=sys.stderr)"
    )
    shell = 'exec "$@" 0<&- 1>&- 2>&-'
    subprocess.run(["sh", "-c", shell, "sh", sys.executable, "-c", code], check=True)
    taken, _, targets = (tmp_path / "found").read_text().partition(" ")
    assert int(taken) > 2
    assert targets == str(["/dev/null"] * 3)


WINDOWS = """
import asyncio, signal, sys
del signal.SIGHUP
members = {name: number for name, number in signal.Signals.__members__.items() if name != "SIGHUP"}
signal.Signals = __import__("enum").IntEnum("Signals", members)

def add_signal_handler(*_given):
    raise NotImplementedError

asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = add_signal_handler
from consumer.entry import main
sys.argv = ["scorestream", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("arguments", [["watch"], ["get", "x"], ["publish", os.devnull], ["verify"], ["--help"]])
def test_the_tools_run_where_there_is_no_sighup_and_the_loop_takes_no_signals(arguments: list[str]) -> None:
    """As on Windows."""
    ended = subprocess.run(
        [sys.executable, "-c", WINDOWS, *arguments],
        env=os.environ | SCRIPTED,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.returncode == (0 if arguments == ["--help"] else 1), ended.stderr
