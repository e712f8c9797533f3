"""Engines without a pipeline, and the worker's tokenizer: the worker's own commands, as child processes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producer_tools.bench.mixes import Tokenisation
from producer_tools.local.processes import running
from producer_tools.local.worker import scorestream_command
from schemas.wire import encode_request

STOP_SECONDS = 10.0
_SAMPLE_WORDS = (8, 24)
_SAMPLE_WORD = "time"

Reports = list[dict[str, Any]]
"""One per file."""


@dataclass(frozen=True, slots=True)
class Worker:
    """How the worker's commands are run. `folder`: for their output. `settings`: dotted paths, above `environment`."""

    folder: Path
    environment: Mapping[str, str]
    settings: Mapping[str, Any]

    async def ceiling(self, files: Sequence[Path], engines: int) -> Reports:
        """What `scorestream ceiling` says of each file. Raises ToolFailure."""
        return await self._run("ceiling", *map(str, files), "--engines", str(engines))

    async def one_at_a_time(self, files: Sequence[Path]) -> Reports:
        """What `scorestream ceiling --one-at-a-time` says of each file. Raises ToolFailure."""
        return await self._run("ceiling", *map(str, files), "--one-at-a-time")

    async def baseline(self, files: Sequence[Path], batch_size: int) -> Reports:
        """What `scorestream baseline` says of each file. Raises ToolFailure."""
        return await self._run("baseline", *map(str, files), "--batch-size", str(batch_size))

    async def tokenisation(self) -> Tokenisation:
        """How many tokens the model's tokenizer makes of a pair, from two pairs of known words. Raises ToolFailure."""
        fewer, more = _SAMPLE_WORDS
        file = self.folder / "samples.jsonl"
        file.write_bytes(b"".join(_sample(words) + b"\n" for words in (fewer, more)))
        counts = [one["tokens"] for one in await self._run("tokens", str(file))]
        per_word = (counts[1] - counts[0]) / (more - fewer)
        return Tokenisation(counts[0] - per_word * fewer, per_word)

    async def _run(self, *arguments: str) -> Reports:
        """The JSON lines that one of the worker's commands prints."""
        command = [scorestream_command(), *arguments, *set_arguments(self.settings)]
        name = f"scorestream {arguments[0]}"
        with tempfile.NamedTemporaryFile(dir=self.folder) as printed:
            data, log = Path(printed.name), Path(f"{printed.name}.log")
            async with running(
                name, command, environment=self.environment, log=log, data=data, grace_seconds=STOP_SECONDS
            ) as child:
                await child.ended_well()
            return _json_lines(data)


def set_arguments(settings: Mapping[str, Any]) -> list[str]:
    """`--set` for every setting; values that are no text as JSON."""
    arguments = []
    for path, value in settings.items():
        arguments += ["--set", f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
    return arguments


def _json_lines(file: Path) -> Reports:
    # Libraries may print to stdout, too.
    return [json.loads(line) for line in file.read_bytes().splitlines() if line.startswith(b"{")]


def _sample(words: int) -> bytes:
    query, document = words // 4, words - words // 4
    texts = {"query": " ".join([_SAMPLE_WORD] * query), "document": " ".join([_SAMPLE_WORD] * document)}
    return encode_request({"id": str(words), "task": "score", **texts})
