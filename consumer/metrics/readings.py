"""The values of all metrics, read from the worker's state at the moment of a scrape. Nothing here waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from consumer.clock import Clock
from consumer.errors import Unanswered
from consumer.flow import Flow
from consumer.health import Health
from consumer.interfaces import RecordSource
from consumer.lane import Lane
from consumer.metrics import surroundings, work
from consumer.metrics.definition import Metric
from consumer.metrics.meters import Calls, Distribution
from consumer.metrics.processor_time import ProcessorTimes
from consumer.metrics.sampler import Sampler
from consumer.model.card import ModelCard
from consumer.revival import RevivableEngine
from consumer.sections import LimitSettings


class Reading(NamedTuple):
    """One series. `series`: its label values, in the order of the definition."""

    metric: Metric
    series: tuple[str, ...]
    value: float | Distribution


@dataclass(frozen=True, slots=True)
class Observed:
    """What there is to read once the model is loaded."""

    flow: Flow
    engine: RevivableEngine
    source: RecordSource
    sampler: Sampler
    card: ModelCard
    limits: LimitSettings


def read_process(health: Health, processor: ProcessorTimes, now: float) -> Iterator[Reading]:
    """From the first moment on. `now`: monotonic seconds."""
    not_live, not_ready = health.not_live(now), health.not_ready(now)
    yield Reading(surroundings.LIFECYCLE, (health.lifecycle.value,), 1)
    yield Reading(surroundings.LIVE, (), not not_live)
    yield Reading(surroundings.READY, (), not not_ready)
    for reason in (*not_live, *not_ready):
        yield Reading(surroundings.CONDITION, (reason.condition.value,), 1)
    for part, time in processor.read().items():
        yield Reading(work.PROCESSOR, (part,), time.running_seconds)
        yield Reading(work.PROCESSOR_WAIT, (part,), time.waiting_seconds)
    yield Reading(work.LOOP_LAG, (), health.loop_lag_seconds)
    for (topic, partition), seconds in health.motionless_seconds():
        yield Reading(surroundings.MOTIONLESS, (topic, str(partition)), seconds)
    yield Reading(surroundings.MOTIONLESS_LIMIT, (), health.stuck_seconds)
    for (topic, partition), cause, seconds in health.unread.seconds():
        yield Reading(surroundings.UNREAD, (topic, str(partition), cause.value), seconds)
    yield Reading(surroundings.UNREAD_LIMIT, (), health.unread.limit_seconds)


def read_worker(observed: Observed, clock: Clock) -> Iterator[Reading]:
    """Everything else."""
    yield from _work(observed)
    yield from _time(observed.flow)
    yield from _engine(observed)
    yield from _partitions(observed)
    for lane in observed.flow.ledger.lanes.values():
        yield from _partition(lane, observed, clock)
    yield from _group(observed.flow)
    yield from _sinks(observed.flow)
    card = observed.card
    series = (card.name, card.revision or "", card.fingerprint, card.dtype, card.kind.value)
    yield Reading(surroundings.MODEL_INFO, series, 1)


def _work(observed: Observed) -> Iterator[Reading]:
    flow, sampler = observed.flow, observed.sampler
    tally = flow.tally
    lag_records = sum(sampler.lag_records(lane) or 0 for lane in flow.ledger.lanes.values())
    for outcome, ages in flow.telemetry.record_ages.items():
        yield Reading(work.RECORD_AGE, (outcome,), ages)
    yield Reading(work.WORK_WAITING, (), lag_records * sampler.seconds_per_record)
    yield Reading(work.ACTIVITY, (activity(flow.ledger.lanes.values(), lag_records),), 1)
    yield Reading(work.RECEIVED, (), tally.received)
    yield Reading(work.ANSWERED, (), tally.answered)
    for code, count in tally.refused.items():
        yield Reading(work.REFUSED, (code,), count)
    for code, count in tally.dead_letters.items():
        yield Reading(work.DEAD_LETTERS, (code,), count)
    yield Reading(work.SKIPPED, (), observed.source.skipped_records)


def activity(lanes: Iterable[Lane], lag_records: int) -> str:
    """One of `work.ACTIVITIES`. `lag_records`: of all these lanes, as last read."""
    with_records = [lane for lane in lanes if lane.items]
    if with_records:
        return "held" if all(lane.held_by for lane in with_records) else "working"
    return "starved" if lag_records else "idle"


def _time(flow: Flow) -> Iterator[Reading]:
    for stage, seconds in flow.telemetry.stages.items():
        yield Reading(work.STAGE_DURATION, (stage,), seconds)
    for part in work.PARTS:
        calls: Calls = getattr(flow.telemetry, part)
        yield Reading(work.BUSY, (part,), calls.busy_seconds)


def _engine(observed: Observed) -> Iterator[Reading]:
    flow, engine = observed.flow, observed.engine
    lanes = flow.ledger.lanes.values()
    yield Reading(work.ENGINE_SEQUENCES, (), flow.window.sequences)
    yield Reading(work.ENGINE_SEQUENCES_LIMIT, (), flow.window.limit_sequences)
    yield Reading(work.ENGINE_TOKENS, (), flow.window.tokens)
    yield Reading(work.ENGINE_TOKENS_LIMIT, (), flow.window.limit_tokens)
    yield Reading(work.WAITING_RECORDS, (), sum(len(lane.ready) for lane in lanes))
    yield Reading(work.WAITING_TOKENS, (), sum(lane.ready_tokens for lane in lanes))
    yield Reading(work.MICRO_BATCH_SEQUENCES, (), flow.telemetry.micro_batch_sequences)
    yield Reading(work.MICRO_BATCH_DURATION, (), flow.telemetry.engine.durations)
    yield Reading(work.SCORED_SEQUENCES, (), flow.tally.scored_sequences)
    yield Reading(work.SCORED_TOKENS, (), flow.tally.scored_tokens)
    yield Reading(work.ENGINE_DEATHS, (), engine.deaths)
    yield Reading(work.ENGINE_RESTARTS, (), engine.restarts)
    yield Reading(work.SUSPECT_RECORDS, (), len(flow.suspects))
    for gpu in observed.sampler.gpus:
        if gpu.utilization is not None:
            yield Reading(work.GPU_UTILIZATION, (gpu.name,), gpu.utilization)
        yield Reading(work.GPU_MEMORY_USED, (gpu.name,), gpu.used_bytes)
        yield Reading(work.GPU_MEMORY, (gpu.name,), gpu.total_bytes)


def _partitions(observed: Observed) -> Iterator[Reading]:
    ledger, sampler = observed.flow.ledger, observed.sampler
    for state, count in Counter(lane.state.value for lane in ledger.lanes.values()).items():
        yield Reading(surroundings.PARTITIONS, (state,), count)
    for hold, count in Counter(hold for lane in ledger.lanes.values() for hold in lane.holds).items():
        yield Reading(surroundings.PARTITIONS_HELD, (hold.name.lower(),), count)
    for code, count in observed.flow.tally.breaker_opens.items():
        yield Reading(surroundings.BREAKER_OPENS, (code,), count)
    opened_by = [lane.breaker.opened_by for lane in ledger.lanes.values()]
    for code, count in Counter(code.value for code in opened_by if code is not None).items():
        yield Reading(surroundings.BREAKER_OPEN, (code,), count)
    yield Reading(surroundings.LAG_AGE, (), sampler.ends_age_seconds)
    yield Reading(surroundings.LAG_READS_FAILED, (), sampler.failed_reads)
    yield Reading(surroundings.IN_FLIGHT_LIMIT, (), observed.limits.lane_records)
    yield Reading(surroundings.IN_FLIGHT_BYTES, (), ledger.memory.charged_bytes)
    yield Reading(surroundings.IN_FLIGHT_BYTES_LIMIT, (), ledger.memory.limit_bytes)


def _partition(lane: Lane, observed: Observed, clock: Clock) -> Iterator[Reading]:
    series = (lane.partition.topic, str(lane.partition.partition))
    head = lane.items[0] if lane.items else None
    # A record that could not be decoded has no timestamp.
    stamped_ms = head.record.timestamp_ms if head else 0
    age_seconds = max(0, clock.unix_ms() - stamped_ms) / 1000 if stamped_ms > 0 else 0.0
    if (lag_records := observed.sampler.lag_records(lane)) is not None:
        yield Reading(surroundings.LAG, series, lag_records)
    if (fetched := observed.source.last_fetch(lane.partition)) is not None:
        yield Reading(surroundings.IN_OPEN_TRANSACTION, series, fetched.end - fetched.readable)
    yield Reading(surroundings.IN_FLIGHT, series, len(lane.items))
    yield Reading(surroundings.UNCOMMITTED, series, lane.uncommitted_records)
    yield Reading(surroundings.OLDEST_AGE, series, age_seconds)
    yield Reading(surroundings.HEAD_WAIT, series, clock.monotonic() - head.received_at if head else 0.0)


def _group(flow: Flow) -> Iterator[Reading]:
    telemetry = flow.telemetry
    for event, count in telemetry.rebalances.items():
        yield Reading(surroundings.REBALANCES, (event,), count)
    yield Reading(surroundings.REBALANCE_DURATION, (), telemetry.rebalance_durations)
    yield Reading(surroundings.COMMITS, ("ok",), telemetry.commit.succeeded)
    unanswered = telemetry.commit.failed_by[Unanswered]
    yield Reading(surroundings.COMMITS, ("refused",), telemetry.commit.failed - unanswered)
    yield Reading(surroundings.COMMITS, ("unanswered",), unanswered)
    yield Reading(surroundings.COMMIT_DURATION, (), telemetry.commit.durations)
    yield Reading(surroundings.FENCE_CLOSED, (), flow.fence.closed)


def _sinks(flow: Flow) -> Iterator[Reading]:
    for sink in surroundings.SINKS:
        calls: Calls = getattr(flow.telemetry, sink)
        yield Reading(surroundings.SINK_WRITES, (sink, "ok"), calls.succeeded)
        yield Reading(surroundings.SINK_WRITES, (sink, "failed"), calls.failed)
        yield Reading(surroundings.SINK_WRITE_DURATION, (sink,), calls.durations)
    yield Reading(surroundings.REDIS_REFUSED, (), flow.tally.fence_refusals)
    yield Reading(surroundings.REDIS_LOST, (), flow.tally.cache_losses)
