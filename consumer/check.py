"""`scorestream check`: what would keep a worker from starting here. A start asks for what concerns servers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence

import structlog

from consumer import logs
from consumer.adapters.health_port import who_listens
from consumer.adapters.kafka_topics import missing_codecs
from consumer.adapters.kafka_topics import read_facts as read_kafka_facts
from consumer.adapters.nvml import gpu_reader
from consumer.adapters.redis_scores import read_facts as read_redis_facts
from consumer.adapters.trace_export import check_tracing
from consumer.adapters.vllm_start import before_import
from consumer.errors import SettingsInvalid
from consumer.exit_code import exit_code_of
from consumer.loading import engine_version, find_processors, load_model, try_engine
from consumer.model.card import ModelCard
from consumer.sections import EngineKind, EngineSettings
from consumer.settings import Settings
from consumer.startup import Finding, KafkaFacts, Level, Unreachable, check_codecs, check_kafka, check_redis, worst
from consumer.startup.health import OurWorker, check_health_port, place_of
from consumer.startup.surroundings import check_environment, check_files
from consumer.supervisor.memory import check_gpu_memory
from consumer.supervisor.mps import check_mps
from producer_tools.terminal import for_stream

log = structlog.get_logger()


def main(settings: Settings, show: Callable[[Sequence[Finding]], str]) -> int:
    """Print what `show` makes of all findings; 2 if one of them would keep a worker from starting."""
    logs.configure()
    # Of what it makes of a model vLLM has much to say; what speaks against it is a finding.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

    async def work() -> int:
        findings = await everything(settings)
        sys.stdout.write(for_stream(show(findings), sys.stdout))
        return 2 if worst(findings) is Level.FAIL else 0

    return exit_code_of(work)


def log_warnings(findings: Sequence[Finding]) -> None:
    """What a start logs of what does not keep it from starting."""
    for finding in findings:
        if finding.level is Level.WARN:
            log.warning("check", name=finding.name, found=finding.found, fix=finding.fix)


async def everything(settings: Settings) -> list[Finding]:
    """Servers, this machine, the model."""
    _, findings = await servers(settings)
    port = await who_listens(settings.health)
    holder = f"the worker on {place_of(settings.health)}" if isinstance(port, OurWorker) else None
    return [
        *findings,
        *check_health_port(settings.health, port),
        *check_mps(settings.workers),
        *await asyncio.to_thread(_check_gpus, settings, holder),
        *await asyncio.to_thread(_check_processors, settings),
        *await asyncio.to_thread(check_model, settings),
        *await asyncio.to_thread(_check_arguments, settings.engine),
    ]


async def servers(settings: Settings) -> tuple[KafkaFacts | Unreachable, list[Finding]]:
    """What the cluster is, and what there is to say about Kafka, Redis, tracing, and what the settings name here."""
    kafka = await read_kafka_facts(settings.kafka)
    redis = await read_redis_facts(settings.redis)
    findings = [
        *check_environment(os.environ),
        *await asyncio.to_thread(check_files, settings),
        *check_codecs(missing_codecs()),
        *check_kafka(settings, kafka),
        *check_redis(settings, redis, kafka),
        *check_tracing(),
    ]
    return kafka, findings


def _check_processors(settings: Settings) -> list[Finding]:
    try:
        processors = find_processors(settings.engine)
    except SettingsInvalid as invalid:
        return [Finding("engine.io_processors", ok=False, found=str(invalid))]
    return [Finding("engine.io_processors", ok=True, found=", ".join(processors) or "none")]


def check_model(settings: Settings) -> list[Finding]:
    """What the model is, and what vLLM makes of it, without starting an engine. Blocking, for seconds."""
    try:
        model = load_model(settings.engine)
    except SettingsInvalid as invalid:
        return [Finding("model", ok=False, found=str(invalid))]
    advice = model.card.advice
    described = [
        Finding(f"model.{name}", ok=True, found=str(is_), fix=advice.get(name, ""))
        for name, is_ in model.card.describe().items()
    ]
    return [*described, _check_engine(settings.engine, model.card)]


def _check_engine(engine: EngineSettings, card: ModelCard) -> Finding:
    try:
        runs_on = try_engine(engine, card)
    except SettingsInvalid as invalid:
        return Finding("engine.vllm", ok=False, found=str(invalid))
    if runs_on is None:
        nothing = f"vLLM {engine_version(engine)} sees nothing to run on here, and so was not asked about this model"
        return Finding("engine.vllm", ok=True, found=nothing, fix="check where the worker will run, too")
    return Finding("engine.vllm", ok=True, found=runs_on)


def _check_arguments(engine: EngineSettings) -> list[Finding]:
    """Of vLLM, which is imported only where there are any: it takes seconds. Blocking."""
    if not engine.args or engine.kind is EngineKind.SCRIPTED:
        return []
    before_import(engine)
    from consumer.adapters.vllm_versions import check_arguments  # noqa: PLC0415 -- heavy

    try:
        check_arguments(engine.args)
    except SettingsInvalid as invalid:
        return [Finding("engine.args", ok=False, found=str(invalid))]
    return [Finding("engine.args", ok=True, found=", ".join(engine.args))]


def _check_gpus(settings: Settings, holder: str | None) -> list[Finding]:
    """What there is to say on a machine with GPUs. Blocking."""
    gpus = gpu_reader()()
    if not gpus or settings.engine.kind is EngineKind.SCRIPTED:
        return []
    from consumer.adapters.vllm_versions import default_gpu_memory_share  # noqa: PLC0415 -- heavy

    try:
        return check_gpu_memory(settings, gpus, default_gpu_memory_share(), holder)
    except SettingsInvalid as invalid:
        return [Finding("engine.gpus", ok=False, found=str(invalid))]
