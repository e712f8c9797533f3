"""`scorestream tune`: the ladder on this machine, and what it recommends as YAML for `scorestream run --config`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from producer_tools.bench.beginning import machine
from producer_tools.bench.engines import Worker
from producer_tools.bench.mixes import PairMix, Span
from producer_tools.console import ToolFailure
from producer_tools.local.gpu import count_visible
from producer_tools.local.mps import mps_daemon, mps_is_there
from producer_tools.local.processes import ChildEnded
from producer_tools.local.worker import engine_environment, environment_names_model, packaged_model, variable
from producer_tools.tune.given import gpus_per_engine, leaves, with_lanes_for_the_window
from producer_tools.tune.ladder import ladder, starts
from producer_tools.tune.search import Candidate, Search, Tried

LAST_LINE_CHARACTERS = 200
TOKENS_ON_GPUS, TOKENS_ON_CPU = 2_000_000, 500_000
"""Of one measurement: for each of eight engines still many steps; 3 to 10 s of one H200, half a minute of two cores."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is tuned. `model`: empty for that of the environment. `requests`: a JSONL file of one's own, or made up.

    `count`: of the made-up ones; None for some seconds' work.
    """

    model: str
    settings: Mapping[str, str]
    requests: Path | None
    tokens: Span
    count: int | None
    minutes: float
    allow_fp8: bool


async def tune(wish: Wish, note: Callable[[str], None]) -> str:
    """The recommended settings as YAML. Raises ToolFailure when the engine does not run at all."""
    ends = time.monotonic() + wish.minutes * 60
    given, environment = _given(wish)
    gpus = count_visible(len(machine()["gpus"]))
    places = max(1, gpus // gpus_per_engine(given)) if gpus else 0
    with tempfile.TemporaryDirectory(prefix="scorestream-tune-") as name:
        bench = _Bench(Path(name), environment, given, note)
        requests = await bench.write_requests(wish, TOKENS_ON_GPUS if gpus else TOKENS_ON_CPU)
        search = Search(bench.measure, lambda: time.monotonic() < ends, note, kept=frozenset(given))
        mps = mps_is_there() and "workers.mps" not in given
        steps = ladder(places=places, mps=mps, fp8=wish.allow_fp8)
        best = await search.run(starts(places, requests, given), steps)
    if best.requests_per_second is None:
        raise ToolFailure(f"the engine does not run: {best.problem}")
    for one in search.left_out:
        note(f"no time left for {one}")
    for path in best.candidate.settings:
        if variable(path) in os.environ:
            note(f"{variable(path)} is set in the environment, which is above the file: unset it")
    if file := os.environ.get("SCORESTREAM_CONFIG"):
        note(f"put these settings into {file}: as --config they would replace it")
    return recommended(best, search.tried[0], given)


def _given(wish: Wish) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of every candidate, which are recommended with it, and its environment. Raises ToolFailure.

    They name the model, so that what is recommended can be run as it is.
    """
    settings = leaves(wish.settings) | ({"engine.model": wish.model} if wish.model else {})
    if "engine.model" not in settings and not environment_names_model():
        return leaves(packaged_model()) | settings, engine_environment()
    if model := os.environ.get(variable("engine.model")):
        settings = {"engine.model": model} | settings
    return settings, dict(os.environ)


def recommended(best: Tried, first: Tried, given: Mapping[str, Any]) -> str:
    """YAML of the settings that were given and those that were found, with what was measured as a comment."""
    tree: dict[str, Any] = {}
    for path, value in with_lanes_for_the_window({**given, **best.candidate.settings}).items():
        *sections, name = path.split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[name] = deepcopy(value)
    if best.candidate.engines > 1:
        workers = tree.setdefault("workers", {})
        workers["count"] = best.candidate.engines
        if best.candidate.mps:
            workers["mps"] = "on"
    told = f"# measured, engine alone: {best.requests_per_second:.1f} requests/s ({best.candidate})\n"
    if first.requests_per_second and first is not best:
        told += f"# before: {first.requests_per_second:.1f} requests/s ({first.candidate})\n"
    return told + yaml.safe_dump(tree, sort_keys=False)


class _Bench:
    """Measures candidates: engines alone, each in a process of its own."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], given: Mapping[str, Any], note: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._given = given
        self._note = note
        self._requests = folder / "requests.jsonl"

    async def write_requests(self, wish: Wish, tokens: int) -> int:
        """Those of the user, or made-up ones of the wished lengths, of about so many tokens together; how many.

        Raises ToolFailure.
        """
        if wish.requests is not None:
            self._requests = wish.requests
            return len(wish.requests.read_bytes().splitlines())
        tokenisation = await Worker(self._folder, self._environment, self._given).tokenisation()
        # What a pair has at least: the prompt, and a word of each text.
        shortest = tokenisation.base_tokens + 2 * tokenisation.tokens_per_word
        mean = max(sum(wish.tokens) / 2, shortest)
        count = wish.count or max(1, round(tokens / mean))
        made_up = PairMix("tune", (wish.tokens,)).requests(count, seed=0, id_prefix="tune-", tokenisation=tokenisation)
        self._requests.write_bytes(b"".join(value + b"\n" for _, value in made_up))
        return count

    async def measure(self, candidates: Sequence[Candidate]) -> AsyncGenerator[Tried, None]:
        """See Measure. A candidate that does not run is no failure of the search."""
        first, left = candidates[0], list(candidates)
        try:
            async with self._environment_of(first) as environment:
                settings = with_lanes_for_the_window({**self._given, **first.settings})
                worker = Worker(self._folder, environment, settings)
                counts = [one.engines for one in candidates]
                async with aclosing(worker.ceiling([self._requests], counts)) as reports:
                    async for told in reports:
                        try:
                            yield Tried(left.pop(0), float(told["requests_per_second"]))
                        except GeneratorExit:
                            left.clear()  # Nobody asks for them.
                            raise
            problem = "it told no rate"
        except ToolFailure as failure:
            said = failure.reason if isinstance(failure, ChildEnded) else str(failure).splitlines()[-1].strip()
            problem = said[:LAST_LINE_CHARACTERS]
            if not left:
                self._note(f"{first}: did not end well after it was measured ({problem})")
        if left:
            yield Tried(left[0], None, problem)

    @asynccontextmanager
    async def _environment_of(self, candidate: Candidate) -> AsyncIterator[Mapping[str, str]]:
        """Of its processes; with a daemon of their own where they share the GPU through MPS. Raises ToolFailure."""
        if not candidate.mps:
            yield self._environment
            return
        async with mps_daemon(self._folder) as found_by:
            yield {**self._environment, **found_by}
