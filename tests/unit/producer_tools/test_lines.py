"""Lines of files and pipes."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_tools import lines
from producer_tools.lines import read_lines


@given(st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b"")), max_size=30))
async def test_every_line_that_is_not_blank_comes_with_its_number(texts: list[bytes]) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"\n".join(texts))
        file.seek(0)
        found = [numbered async for numbered in read_lines(file)]
    assert found == [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]


async def test_a_line_comes_before_the_pipe_ends() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source:
        found = read_lines(source)
        os.write(writing, b"one\r\ntw")
        assert await anext(found) == (1, b"one")
        os.write(writing, b"o\nthree")
        assert await anext(found) == (2, b"two")
        os.close(writing)
        assert await anext(found) == (3, b"three")
        with pytest.raises(StopAsyncIteration):
            await anext(found)


async def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    file = tmp_path / "long"
    file.write_bytes(b"ok\n" + b"x" * 1000)
    with file.open("rb") as source, pytest.raises(ValueError, match="line 2 is longer"):
        _ = [numbered async for numbered in read_lines(source)]


async def test_a_failing_read_is_raised(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        _ = [numbered async for numbered in read_lines(os.fdopen(os.dup(descriptor), "rb", closefd=False))]
    os.close(descriptor)
