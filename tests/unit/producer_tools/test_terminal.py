"""What comes from elsewhere is shown on a terminal and never obeyed; in a pipe it is data."""

import json
import os
import pty
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_tools.terminal import visible

ROOT = Path(__file__).parents[3]
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u2066\x9b31m\r\u2028\U000e0041[link=http://x]x[/link]\x7f"
BEGIN = f"""
import json
from producer_tools import get, watch
from producer_tools.console import say, write_lines, stdout_console
from producer_tools.verify.report import as_table
HOSTILE = {HOSTILE!r}
result = json.loads(open("schemas/examples/v1/result.rerank.ok.json").read())
result["id"] += HOSTILE
result["results"][0] |= {{"id": HOSTILE, "document": HOSTILE}}
result["model"]["name"] = HOSTILE
failed = json.loads(open("schemas/examples/v1/result.error.json").read())
failed["error"]["message"] = HOSTILE
"""
PRINTERS = [
    "get.show(json.dumps(result).encode(), 'id')",
    "get.show(json.dumps(result, ensure_ascii=False).encode(), 'id')",
    "get.show(json.dumps(failed).encode(), 'id')",
    "watch.as_line()(json.dumps(result).encode())",
    "watch.as_line()(json.dumps(result, ensure_ascii=False).encode() + b'x')",
    "watch.as_json(json.dumps(result, ensure_ascii=False).encode())",
    "write_lines(HOSTILE.encode())",
    "say('error: ' + HOSTILE)",
    "stdout_console().print(HOSTILE)",
    "stdout_console().print(HOSTILE, style='bold')",
]


def on_terminal(code: str) -> str:
    """What arrives at a terminal, without what rich styles it with."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "500"}
    child = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code], cwd=ROOT, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    arrived = b""
    while True:
        try:
            arrived += os.read(ours, 65536)
        except OSError:  # Linux's end of a terminal.
            break
    os.close(ours)
    assert child.wait() == 0, arrived
    return arrived.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("code", PRINTERS)
def test_nothing_that_a_terminal_obeys_arrives_there(code: str) -> None:
    arrived = on_terminal(code)
    assert [hex(ord(one)) for one in arrived if one != "\n" and unicodedata.category(one) in OBEYED] == []
    assert "\\u001b" in arrived or "bytes)" in arrived


def test_what_is_markup_to_rich_is_text_from_elsewhere() -> None:
    assert "[link=http://x]x[/link]" in on_terminal(PRINTERS[0])


@pytest.mark.parametrize(
    ("code", "bytes_of"),
    [
        ("get.show((HOSTILE + chr(10)).encode(), 'id')", HOSTILE + "\n\n"),
        ("watch.as_json(HOSTILE.encode())", HOSTILE + "\n"),
        ("write_lines(HOSTILE.encode())", HOSTILE + "\n"),
    ],
)
def test_a_pipe_gets_the_bytes_as_they_are(code: str, bytes_of: str) -> None:
    ran = subprocess.run([sys.executable, "-c", BEGIN + code], cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout == bytes_of.encode()


@given(st.text(st.characters()))
def test_only_what_a_terminal_could_obey_is_changed_and_json_means_the_same(text: str) -> None:
    shown = visible(text)
    assert not [one for one in shown if unicodedata.category(one) in OBEYED]
    harmless = "".join(one for one in text if unicodedata.category(one) not in OBEYED)
    assert visible(harmless) == harmless
    line = json.dumps(text, ensure_ascii=False)
    assert json.loads(visible(line)) == text


def test_combined_emoji_scripts_and_spaces_of_any_language_are_readable() -> None:
    for text in ("日本語　テキスト", "über naïve", "עברית", "नमस्ते", "😀"):
        assert visible(text) == text
