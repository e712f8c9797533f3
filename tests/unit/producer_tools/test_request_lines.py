"""What `publish` says of JSON that is not laid out in lines."""

import json
import os
from pathlib import Path

import pytest

from producer_tools.console import ToolFailure
from producer_tools.publish import validated

REQUESTS = [{"id": f"q{number}", "task": "embed", "input": "text"} for number in range(2)]


async def refusal(content: str) -> str:
    reading, writing = os.pipe()
    os.write(writing, content.encode())
    os.close(writing)
    # Left open: the thread that reads it may be about to read again, and must not find another file there.
    with pytest.raises(ToolFailure) as refused:
        _ = [request async for request in validated(os.fdopen(reading, "rb", closefd=False), "id")]
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps(REQUESTS), "line 1: a JSON array stands there: write one request a line, as `jq -c '.[]' FILE`"),
        (
            json.dumps(REQUESTS, indent=2),
            "line 1: the JSON does not end in this line: write one request a line, as `jq",
        ),
        ("﻿" + json.dumps(REQUESTS, indent=2), "as `jq -c '.[]' FILE` does"),
        (json.dumps(REQUESTS[0], indent=1), "line 1: the JSON does not end in this line: write one request a line, as"),
        (json.dumps(REQUESTS[0], indent=1), "as `jq -c . FILE` does"),
        ("\n" + json.dumps(REQUESTS[0]) + json.dumps(REQUESTS[1]), "line 2: more stands there than one JSON object"),
        (json.dumps(REQUESTS[0]) + ",\n" + json.dumps(REQUESTS[1]), "line 1: more stands there than one JSON object"),
    ],
)
async def test_json_in_another_layout_is_refused_with_what_changes_it(content: str, says: str) -> None:
    assert says in await refusal(content)


@pytest.mark.parametrize(
    "line", ['{"id": "q1" "task"}', "text", '{"id": "q1", "task": "embed", "unknown": 1}', "5", "]"]
)
async def test_a_line_that_is_wrong_in_itself_is_told_as_that(line: str) -> None:
    assert "a line" not in await refusal(f"{line}\n")


async def test_requests_a_line_each_are_taken(tmp_path: Path) -> None:
    (tmp_path / "requests").write_text("\n".join(map(json.dumps, REQUESTS)))
    with (tmp_path / "requests").open("rb") as source:
        assert [request.id async for request in validated(source, "id")] == ["q0", "q1"]
