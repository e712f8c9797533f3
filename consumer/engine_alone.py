"""Engines without a pipeline, on the token ids of given requests: the denominators of the pipeline's rate and latency.

Every engine is a process of its own, as in production; they begin each file at the same moment.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TextIO

from consumer.errors import EngineDead, SettingsInvalid
from consumer.loading import LoadedModel, load_model
from consumer.model.card import ModelCard
from consumer.records import EngineInput, Prepared, Refusal, SourceRecord
from consumer.sections import EngineKind, EngineSettings
from consumer.settings import Settings
from consumer.stages.prepare import Preparer
from consumer.supervisor.gpus import gpus_of_workers, visible_gpus, visible_variables
from consumer.supervisor.plan import gpu_memory_share, gpus_per_worker, start_rule
from consumer.supervisor.roster import StartRule
from consumer.tasks import tasks_for
from schemas.wire import RequestLimits

WARMUP_REQUESTS = 64
STOP_SECONDS = 30.0
"""For all of them together to end by themselves."""

Inputs = Sequence[EngineInput]
"""What one request asks of the engine."""


class Scorer(Protocol):
    """What is measured."""

    dtype: str

    def score(self, requests: Sequence[Inputs]) -> Sequence[float]:
        """Compute all; the seconds of each request where they run one at a time, else nothing."""


Load = Callable[[EngineSettings, ModelCard], Scorer]


class Span(NamedTuple):
    """When one engine scored its part of a file, on the machine's monotonic clock; see Scorer.score."""

    begun: float
    ended: float
    latencies_seconds: Sequence[float]


@dataclass(frozen=True, slots=True)
class Measured:
    """One file on all engines."""

    file: Path
    engines: int
    dtype: str
    requests: Sequence[Inputs]
    spans: Sequence[Span]

    def as_json(self) -> str:
        """One JSON object."""
        seconds = max(span.ended for span in self.spans) - min(span.begun for span in self.spans)
        tokens = [sum(len(one.token_ids) for one in request) for request in self.requests]
        sequences = sum(map(len, self.requests))
        latencies = sorted(one * 1000 for span in self.spans for one in span.latencies_seconds)
        report = {
            "file": self.file.name,
            "engines": self.engines,
            "dtype": self.dtype,
            "requests": len(self.requests),
            "sequences": sequences,
            "tokens": sum(tokens),
            "tokens_per_request": {"min": min(tokens), "max": max(tokens)},
            "seconds": round(seconds, 3),
            "requests_per_second": round(len(self.requests) / seconds, 2),
            "sequences_per_second": round(sequences / seconds, 2),
            "tokens_per_second": round(sum(tokens) / seconds, 1),
            "latency_ms": _percentiles(latencies) if latencies else None,
        }
        return json.dumps(report)


def as_fast_as_it_goes(settings: EngineSettings, card: ModelCard) -> Scorer:
    """Everything at once, through vLLM's offline class."""
    from consumer.adapters.vllm_offline import OfflineEngine  # noqa: PLC0415 -- heavy

    return OfflineEngine(settings, card)


def one_at_a_time(settings: EngineSettings, card: ModelCard) -> Scorer:
    """The latency of a request that finds the engine idle, through vLLM's AsyncLLM."""
    from consumer.adapters.vllm_offline import LoneEngine  # noqa: PLC0415 -- heavy

    return LoneEngine(settings, card)


def padded_batches(batch_size: int, settings: EngineSettings, card: ModelCard) -> Scorer:
    """What people have without vLLM: transformers."""
    from consumer.adapters.transformers_offline import PaddedBatches  # noqa: PLC0415 -- heavy

    return PaddedBatches(settings, card, batch_size)


def measure(settings: Settings, files: Sequence[Path], load: Load, engines: Sequence[int], out: TextIO) -> None:
    """Score each JSONL file of requests on so many engines at once, which share it; one JSON object per file.

    With several numbers of `engines` the fewest are measured first and go on running beside those that are added.
    Tokenising is not measured: engines get token ids, as from the pipeline.
    Raises SettingsInvalid for a model that is not recognised or a request that cannot be scored, EngineDead.
    """
    if settings.engine.kind is EngineKind.SCRIPTED:
        raise SettingsInvalid("engine.kind is scripted: there is no engine to measure; set it to vllm")
    counts = sorted(set(engines))
    model = load_model(settings.engine)
    requests = {file: list(prepared_requests(settings, model, file)) for file in files}
    for file, some in requests.items():
        if len(some) < counts[-1]:
            raise SettingsInvalid(
                f"{file} has {len(some)} requests: give at least one for each of {counts[-1]} engines"
            )
    with _Engines(settings.engine, model.card, load, counts[-1]) as running:
        for count in counts:
            running.grow_to(count, [[some[number::count] for some in requests.values()] for number in range(count)])
            for file, some in requests.items():
                out.write(Measured(file, count, running.dtype, some, running.score_next()).as_json() + "\n")
                out.flush()


def count_tokens(settings: Settings, files: Sequence[Path], out: TextIO) -> None:
    """How many tokens each request of the JSONL files gives the engine; one JSON object per request.

    Raises SettingsInvalid for a model that is not recognised or a request that cannot be scored.
    """
    model = load_model(settings.engine)
    for file in files:
        for number, request in enumerate(prepared_requests(settings, model, file), start=1):
            tokens = sum(len(one.token_ids) for one in request)
            told = {"file": file.name, "line": number, "sequences": len(request), "tokens": tokens}
            out.write(json.dumps(told) + "\n")


def prepared_requests(settings: Settings, model: LoadedModel, file: Path) -> Iterator[Inputs]:
    """The token ids of each line of a JSONL file. Raises SettingsInvalid with the line's number."""
    tasks = tasks_for(model.card, model.encoder, settings.limits)
    limits = RequestLimits(settings.limits.max_items, settings.redis.max_ttl_seconds)
    preparer = Preparer(tasks, model.encoder, model.card.served_names, limits)
    lines = file.read_bytes().splitlines()
    records = [SourceRecord(file.name, 0, number, 0, None, line, ()) for number, line in enumerate(lines)]
    if not records:
        raise SettingsInvalid(f"{file} has no requests")
    for number, prepared in enumerate(preparer.prepare(records, now_unix_ms=0), start=1):
        if isinstance(prepared, Refusal):
            raise SettingsInvalid(f"{file}, line {number}: {prepared.code.value}: {prepared.message}")
        if not isinstance(prepared, Prepared):
            raise SettingsInvalid(f"{file}, line {number}: leave it out, IO processors are no part of the engine")
        yield prepared.inputs


Parts = Sequence[Sequence[Inputs]]
"""What one engine scores, one after the other: its share of each file."""


class _Engine:
    """One process, seen from outside."""

    def __init__(self, process: SpawnProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection

    def receive(self) -> Any:
        """What it says next. Raises SettingsInvalid as it did, EngineDead."""
        try:
            said = self.connection.recv()
        except EOFError:
            self.process.join(STOP_SECONDS)
            raise EngineDead(f"{self.process.name} ended with exit code {self.process.exitcode}") from None
        if isinstance(said, Exception):
            raise said
        return said


class _Engines:
    """Engines on the GPUs, with the share of memory and started in the order that `most` workers would have."""

    def __init__(self, settings: EngineSettings, card: ModelCard, load: Load, most: int) -> None:
        self.dtype = ""
        self._card, self._load = card, load
        self._gpus = gpus_of_workers(most, visible_gpus(os.environ), gpus_per_worker(settings))
        if (share := gpu_memory_share(settings, self._gpus)) is not None:
            settings = settings.model_copy(update={"args": settings.args | {"gpu_memory_utilization": share}})
        self._settings = settings
        self._one_by_one = start_rule(settings) is StartRule.ONE_BY_ONE
        self._context = multiprocessing.get_context("spawn")
        self._running: list[_Engine] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for one in self._running:
            one.connection.close()
        deadline = time.monotonic() + STOP_SECONDS
        for one in self._running:
            one.process.join(max(0.0, deadline - time.monotonic()))
            one.process.kill()

    def grow_to(self, count: int, parts: Sequence[Parts]) -> None:
        """So many engines, loaded, each with its parts. Raises SettingsInvalid, EngineDead."""
        loading = []
        for number in range(len(self._running), count):
            job = _Job(self._settings, self._card, self._load, visible_variables(self._gpus[number]))
            self._running.append(_start(self._context, f"engine {number + 1}", job))
            loading.append(self._running[-1])
            # The first one fills the compile cache.
            if number == 0 or self._one_by_one:
                self.dtype = loading.pop().receive()
        for one in loading:
            one.receive()
        for one, some in zip(self._running, parts, strict=True):
            one.connection.send(some)

    def score_next(self) -> list[Span]:
        """All of them their next part, begun at the same moment. Raises EngineDead."""
        # Each warms up before it says that it is ready.
        for one in self._running:
            one.receive()
        for one in self._running:
            one.connection.send(None)
        return [one.receive() for one in self._running]


def _start(context: SpawnContext, name: str, job: _Job) -> _Engine:
    ours, theirs = context.Pipe()
    process = context.Process(target=_tell_failure, args=(job, theirs), name=name)
    process.start()
    theirs.close()
    return _Engine(process, ours)


def _tell_failure(job: _Job, connection: Connection) -> None:
    try:
        job.run(connection)
    except (SettingsInvalid, EngineDead) as failure:
        connection.send(failure)
    except (BrokenPipeError, EOFError):
        return  # Whoever asked has gone away, or asks no more.


@dataclass(frozen=True, slots=True)
class _Job:
    """What one engine's process does. `environment`: which GPUs it sees."""

    settings: EngineSettings
    card: ModelCard
    load: Load
    environment: Mapping[str, str]

    def run(self, connection: Connection) -> None:
        """Load; then for each part that comes warm up, wait for all others, score, tell."""
        os.environ.update(self.environment)
        scorer = self.load(self.settings, self.card)
        connection.send(scorer.dtype)
        while True:
            for requests in connection.recv():
                scorer.score(_warmup(requests))
                connection.send(None)
                connection.recv()
                begun = time.monotonic()
                latencies = scorer.score(requests)
                connection.send(Span(begun, time.monotonic(), latencies))


def _warmup(requests: Sequence[Inputs]) -> Sequence[Inputs]:
    """Of the same lengths, but backwards: a prefix cache must not know what is measured."""
    return [[one._replace(token_ids=one.token_ids[::-1]) for one in request] for request in requests[:WARMUP_REQUESTS]]


def _percentiles(ordered: Sequence[float]) -> dict[str, float]:
    return {
        f"p{percent:g}": round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 3)
        for percent in (50.0, 90.0, 99.0, 100.0)
    }
