"""Measure workers that run already, wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from producer_tools.bench.beginning import empty_report
from producer_tools.bench.mixes import Mix, Tokenisation
from producer_tools.bench.pipeline import Deployed, measure_load
from producer_tools.bench.report import Report
from producer_tools.bench.run import WARMUP_SEED, pace_of
from producer_tools.bench.suite import Suite
from producer_tools.generate import unique_prefix
from producer_tools.kafka import waiting_records
from producer_tools.load import Target, drive


async def measure(
    suite: Suite,
    mixes: Mapping[str, Mix],
    target: Target,
    *,
    group_id: str,
    pid: int | None,
    note: Callable[[str], None],
) -> Report:
    """Every mix of the suite; processor time if `pid` is a worker's or supervisor's on this machine.

    `group_id`: the workers' consumer group, for what is waiting when a measurement begins.

    Their tokenizer is not at hand: lengths in tokens are met if a word is a token, and the report tells what they were.
    Raises ToolFailure, KafkaError.
    """
    report = empty_report(suite)
    deployed = Deployed("existing", target, suite.deployments[0].workers, pid)
    for name in suite.mixes:
        mix = mixes[name]
        if suite.warmup:
            note(f"{name}: warming up")
            seed = suite.seed + WARMUP_SEED
            warmup = mix.requests(suite.warmup, seed=seed, id_prefix=unique_prefix(name), tokenisation=Tokenisation())
            await drive(warmup, target, pace_of(suite))
        note(f"{name}: measuring")
        count = suite.requests_of(name)
        requests = mix.requests(count, seed=suite.seed, id_prefix=unique_prefix(name), tokenisation=Tokenisation())
        lag = await waiting_records(target.brokers, target.request_topic, group_id)
        measured = await measure_load(deployed, name, requests, count, pace_of(suite))
        report.measurements.append(measured.model_copy(update={"lag_at_start": lag}))
    return report
