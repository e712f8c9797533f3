"""Read the topics and Redis, and tell the tally."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from producer_tools.connections.kafka import Brokers
from producer_tools.coordinates import Coordinates, header, source_of
from producer_tools.kafka import follow, open_reader, read_spans, spans_of
from producer_tools.verify.cache import Cache, check_cache
from producer_tools.verify.tally import UNFINISHED, Findings, Tally
from schemas import headers as names
from schemas.wire import RequestLimits, WireError, parse_request, parse_result

UNREADABLE = "unreadable"
"""Counted as the code of an error result in which there is none."""


@dataclass(frozen=True, slots=True)
class Topics:
    """What is audited."""

    requests: str
    results: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome. `redis_checked` is None when Redis was not looked at."""

    tally: Tally
    findings: Findings
    seconds: float
    redis_checked: int | None = None


async def audit(
    brokers: Brokers, topics: Topics, *, wait_seconds: float, cache: Cache | None, note: Callable[[str], None]
) -> Audit:
    """Judge the requests that are on the topic now. `note` is told what goes on.

    Waits up to `wait_seconds` for answers still to come. Raises ToolFailure, KafkaError, RedisError.
    """
    started = time.monotonic()
    async with open_reader(brokers) as reader:
        asked = await spans_of(reader, topics.requests)
        tally = Tally(topics.requests, {one.partition: (span.start, span.end) for one, span in asked.items()})
        async for records in read_spans(reader, asked):
            for record in records:
                _tell_request(tally, record)
        note(f"read {tally.requests} requests")
        answered = await spans_of(reader, topics.results)
        buried = await spans_of(reader, topics.dead_letters)
        async for records in read_spans(reader, answered | buried):
            _tell(tally, topics, records)
        note(f"read {tally.results + tally.duplicates} results and {tally.dead_letters} dead letters")
        if wait_seconds > 0:
            ends = {one: span.end for one, span in (answered | buried).items()}
            await _wait_for_answers(reader, ends, tally, topics, wait_seconds)
        findings = tally.findings()
        checked = None
        if cache is not None:
            checked = await check_cache(reader, topics.results, tally, cache, findings)
            note(f"looked up {checked} results in Redis")
    return Audit(tally, findings, time.monotonic() - started, checked)


async def _wait_for_answers(
    reader: AIOKafkaConsumer, ends: Mapping[TopicPartition, int], tally: Tally, topics: Topics, wait_seconds: float
) -> None:
    deadline = time.monotonic() + wait_seconds
    async for records in follow(reader, ends):
        _tell(tally, topics, records)
        if tally.unsettled == 0 and not UNFINISHED & tally.findings().counts.keys():
            return
        if time.monotonic() > deadline:
            return


def _tell_request(tally: Tally, record: ConsumerRecord) -> None:
    try:
        request = parse_request(record.value, RequestLimits())
    except WireError as refused:
        tally.request(record.partition, record.offset, refused.id)
    else:
        tally.request(record.partition, record.offset, request.id, request.ttl_seconds or 0)


def _tell(tally: Tally, topics: Topics, records: Iterable[ConsumerRecord]) -> None:
    for record in records:
        source = source_of(record.headers) or Coordinates("", -1, -1)
        if record.topic == topics.dead_letters:
            tally.dead_letter(source)
        else:
            tally.result(source, record.partition, header(record.headers, names.ID), _error_code(record))


def _error_code(record: ConsumerRecord) -> str | None:
    # Answered requests are not parsed: the header tells, and there are millions of them.
    if header(record.headers, names.STATUS) != "error":
        return None
    try:
        error = parse_result(record.value).error
    except ValueError:
        return UNREADABLE
    return error.code if error is not None else UNREADABLE
