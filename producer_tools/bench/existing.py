"""Measure workers that run already, wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from producer_tools.bench.beginning import empty_report
from producer_tools.bench.lone import measure_one_at_a_time
from producer_tools.bench.mixes import Mix, Tokenisation
from producer_tools.bench.pipeline import Deployed, measure_load
from producer_tools.bench.report import Report
from producer_tools.bench.run import LONE_SEED, LONE_WARMUP_REQUESTS, WARMUP_SEED, pace_of
from producer_tools.bench.suite import Suite
from producer_tools.connections.redis import RedisServer
from producer_tools.generate import unique_prefix
from producer_tools.kafka import waiting_records
from producer_tools.load import Target, drive


@dataclass(frozen=True, slots=True)
class Place:
    """Where they are. `group_id`: their consumer group, for what is waiting when a measurement begins.

    `redis`, `redis_prefix`: where a caller looks who is alone. `pid`: of a worker or supervisor on this machine, whose
    processor time is wanted.
    """

    target: Target
    group_id: str
    redis: RedisServer
    redis_prefix: str
    pid: int | None = None


async def measure(suite: Suite, mixes: Mapping[str, Mix], place: Place, note: Callable[[str], None]) -> Report:
    """Every mix of the suite, and the first of them one at a time if the suite asks for it.

    Their tokenizer is not at hand: lengths in tokens are met if a word is a token, and the report tells what they were.
    Raises ToolFailure, KafkaError, RedisError.
    """
    report, target = empty_report(suite), place.target
    deployed = Deployed("existing", target, suite.deployments[0].workers, place.pid)
    for name in suite.mixes:
        mix = mixes[name]
        if suite.warmup:
            note(f"{name}: warming up")
            seed = suite.seed + WARMUP_SEED
            count, prefix = suite.warmup_of(name), unique_prefix(name)
            warmup = mix.requests(count, seed=seed, id_prefix=prefix, tokenisation=Tokenisation())
            await drive(warmup, target, pace_of(suite))
        note(f"{name}: measuring")
        count = suite.requests_of(name)
        requests = mix.requests(count, seed=suite.seed, id_prefix=unique_prefix(name), tokenisation=Tokenisation())
        lag = await waiting_records(target.brokers, target.request_topic, place.group_id)
        measured = await measure_load(deployed, name, requests, count, pace_of(suite))
        report.measurements.append(measured.model_copy(update={"lag_at_start": lag}))
    if "one_at_a_time" in suite.deployments[0].measure:
        name, count = suite.mixes[0], LONE_WARMUP_REQUESTS + suite.one_at_a_time_requests
        note(f"{name}: one at a time")
        requests = mixes[name].requests(
            count, seed=suite.seed + LONE_SEED, id_prefix=unique_prefix(name), tokenisation=Tokenisation()
        )
        lone = await measure_one_at_a_time(
            deployed, name, requests, LONE_WARMUP_REQUESTS, server=place.redis, prefix=place.redis_prefix
        )
        report.measurements.append(lone)
    return report
