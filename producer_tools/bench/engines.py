"""Engines without a pipeline, and the worker's tokenizer: the worker's own commands, as child processes."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from producer_tools.bench.mixes import Tokenisation
from producer_tools.local.processes import running
from producer_tools.local.worker import Scorestream, scorestream_command
from schemas.wire import encode_request

STOP_SECONDS = 10.0
_SAMPLE_WORDS = (8, 24)
_SAMPLE_WORD = "time"

LOOK_SECONDS = 0.1

Reports = AsyncGenerator[dict[str, Any], None]
"""One by one, as soon as they are there."""


@dataclass(frozen=True, slots=True)
class Worker:
    """How the worker's commands are run. `folder`: for their output. `settings`: dotted paths, above `environment`."""

    folder: Path
    environment: Mapping[str, str]
    settings: Mapping[str, Any]

    def ceiling(self, files: Sequence[Path], engines: Sequence[int]) -> Reports:
        """What `scorestream ceiling` says of each file, for each number of engines. Raises ToolFailure."""
        counts = [argument for count in engines for argument in ("--engines", str(count))]
        return self._run("ceiling", *map(str, files), *counts)

    def one_at_a_time(self, files: Sequence[Path]) -> Reports:
        """What `scorestream ceiling --one-at-a-time` says of each file. Raises ToolFailure."""
        return self._run("ceiling", *map(str, files), "--one-at-a-time")

    def baseline(self, files: Sequence[Path], batch_size: int) -> Reports:
        """What `scorestream baseline` says of each file. Raises ToolFailure."""
        return self._run("baseline", *map(str, files), "--batch-size", str(batch_size))

    async def tokenisation(self) -> Tokenisation:
        """How many tokens the model's tokenizer makes of a pair, from two pairs of known words. Raises ToolFailure."""
        fewer, more = _SAMPLE_WORDS
        file = self.folder / "samples.jsonl"
        file.write_bytes(b"".join(_sample(words) + b"\n" for words in (fewer, more)))
        counts = [one["tokens"] async for one in self._run("tokens", str(file))]
        per_word = (counts[1] - counts[0]) / (more - fewer)
        return Tokenisation(counts[0] - per_word * fewer, per_word)

    async def _run(self, *arguments: str) -> Reports:
        """The JSON lines that one of the worker's commands prints. Raises ToolFailure, after them, if it fails."""
        command = [scorestream_command(), *arguments, *set_arguments(self.settings)]
        name = f"scorestream {arguments[0]}"
        with tempfile.NamedTemporaryFile(dir=self.folder) as printed:
            data, log = Path(printed.name), Path(f"{printed.name}.log")
            async with running(
                name,
                command,
                environment=self.environment,
                log=log,
                data=data,
                grace_seconds=STOP_SECONDS,
                kind=Scorestream,
            ) as child:
                ending = asyncio.ensure_future(child.ended_well())
                try:
                    async for line in _lines(data, ending):
                        # Libraries may print to stdout, too.
                        if line.startswith(b"{"):
                            yield json.loads(line)
                    await ending
                finally:
                    ending.cancel()
                    await asyncio.wait({ending})


def set_arguments(settings: Mapping[str, Any]) -> list[str]:
    """`--set` for every setting; values that are no text as JSON."""
    arguments = []
    for path, value in settings.items():
        arguments += ["--set", f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
    return arguments


async def _lines(file: Path, ending: asyncio.Future[None]) -> AsyncIterator[bytes]:
    """Every complete line, until whoever writes them has ended."""
    with file.open("rb") as written:
        rest = b""
        while True:
            # Asked first: what it wrote before it ended is read then.
            ended = ending.done()
            *complete, rest = (rest + written.read()).split(b"\n")
            for line in complete:
                yield line
            if ended:
                return
            await asyncio.wait({ending}, timeout=LOOK_SECONDS)


def _sample(words: int) -> bytes:
    query, document = words // 4, words - words // 4
    texts = {"query": " ".join([_SAMPLE_WORD] * query), "document": " ".join([_SAMPLE_WORD] * document)}
    return encode_request({"id": str(words), "task": "score", **texts})
