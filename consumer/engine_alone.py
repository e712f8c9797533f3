"""Engines without a pipeline, on the token ids of given requests: the denominators of the pipeline's rate and latency.

Every engine is a process of its own, as in production; they begin each file at the same moment.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TextIO

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


def measure(settings: Settings, files: Sequence[Path], load: Load, engines: int, out: TextIO) -> None:
    """Score each JSONL file of requests on `engines` engines at once, which share it; one JSON object per file.

    Tokenising is not measured: engines get token ids, as from the pipeline. The first requests run once before.
    Raises SettingsInvalid for a model that is not recognised or a request that cannot be scored, EngineDead.
    """
    if settings.engine.kind is EngineKind.SCRIPTED:
        raise SettingsInvalid("engine.kind is scripted: there is no engine to measure; set it to vllm")
    model = load_model(settings.engine)
    requests = {file: list(prepared_requests(settings, model, file)) for file in files}
    for file, some in requests.items():
        if len(some) < engines:
            raise SettingsInvalid(f"{file} has {len(some)} requests: give at least one for each of {engines} engines")
    with _running(settings.engine, model.card, requests, load, engines) as running:
        for file in files:
            # Each warms up before it says that it is; so all begin together.
            for one in running:
                one.receive()
            for one in running:
                one.connection.send(None)
            spans = [one.receive() for one in running]
            out.write(Measured(file, engines, running[0].dtype, requests[file], spans).as_json() + "\n")
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


class _Engine:
    """One process, seen from outside."""

    def __init__(self, process: SpawnProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.dtype = ""

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


@contextmanager
def _running(
    settings: EngineSettings, card: ModelCard, requests: dict[Path, list[Inputs]], load: Load, engines: int
) -> Iterator[list[_Engine]]:
    """So many engines, loaded: on the GPUs, with the share of memory and in the order that workers would have."""
    gpus = gpus_of_workers(engines, visible_gpus(os.environ), gpus_per_worker(settings))
    if (share := gpu_memory_share(settings, gpus)) is not None:
        settings = settings.model_copy(update={"args": settings.args | {"gpu_memory_utilization": share}})
    one_by_one = start_rule(settings) is StartRule.ONE_BY_ONE
    context = multiprocessing.get_context("spawn")
    running: list[_Engine] = []
    try:
        for number in range(engines):
            parts = {file: some[number::engines] for file, some in requests.items()}
            job = _Job(settings, card, parts, load, visible_variables(gpus[number]))
            running.append(_start(context, f"engine {number + 1}", job))
            # The first one fills the compile cache.
            if number == 0 or one_by_one:
                running[-1].dtype = running[-1].receive()
        for one in running:
            one.dtype = one.dtype or one.receive()
        yield running
    finally:
        for one in running:
            one.connection.close()
        for one in running:
            one.process.join(STOP_SECONDS)
            one.process.kill()


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
        return  # Whoever asked has gone away.


@dataclass(frozen=True, slots=True)
class _Job:
    """What one engine's process does. `parts`: its requests of each file. `environment`: which GPUs it sees."""

    settings: EngineSettings
    card: ModelCard
    parts: Mapping[Path, Sequence[Inputs]]
    load: Load
    environment: Mapping[str, str]

    def run(self, connection: Connection) -> None:
        """Load; for each file warm up, wait for all others, score, tell."""
        os.environ.update(self.environment)
        scorer = self.load(self.settings, self.card)
        connection.send(scorer.dtype)
        for requests in self.parts.values():
            scorer.score(requests[:WARMUP_REQUESTS])
            connection.send(None)
            connection.recv()
            begun = time.monotonic()
            latencies = scorer.score(requests)
            connection.send(Span(begun, time.monotonic(), latencies))


def _percentiles(ordered: Sequence[float]) -> dict[str, float]:
    return {
        f"p{percent:g}": round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 3)
        for percent in (50.0, 90.0, 99.0, 100.0)
    }
