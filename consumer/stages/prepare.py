"""Decode and prepare: bytes -> request -> token ids, for a batch of records at once.

All texts of the batch go through the tokenizer in one call. Every fault stays with its own record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from consumer.errors import RecordRejected
from consumer.interfaces import EncodedText, Task, TextEncoder
from consumer.item import Item
from consumer.records import Later, Prepared, Refusal, SourceRecord, deadline_unix_ms
from consumer.stages.faults import internal
from schemas.errors import ErrorCode
from schemas.headers import HeadersTooLarge, check_request_headers
from schemas.request import EARLIEST_UNIX_MS, LATEST_UNIX_MS, ScoringRequest
from schemas.wire import RequestLimits, WireError, named_headers, parse_request

NO_TIMESTAMP = -1
"""Kafka's, of a record whose producer set none."""

EXPIRED = "the deadline passed before the request could enter the engine"

Outcome = Prepared | Refusal | Later[Prepared | Refusal]


class _Parsed(NamedTuple):
    request: ScoringRequest
    task: Task
    texts: list[str]


class Preparer:
    """Reads requests for one model."""

    def __init__(
        self, tasks: Mapping[str, Task], encoder: TextEncoder, served_names: Sequence[str], limits: RequestLimits
    ) -> None:
        self._tasks = tasks
        self._encoder = encoder
        self._served_names = frozenset(served_names)
        self._limits = limits

    def prepare(self, records: Sequence[SourceRecord], now_unix_ms: int) -> list[Outcome]:
        """One outcome per record, in their order. Never raises for a record's sake, now or later.

        What is past its deadline already is not tokenised: under overload that would cost the others theirs.
        """
        parsed = [self._parse(record, now_unix_ms) for record in records]
        encoded = self._encode([one for one in parsed if isinstance(one, _Parsed)])
        return [one if isinstance(one, Refusal) else self._prepare(one, next(encoded)) for one in parsed]

    def _parse(self, record: SourceRecord, now_unix_ms: int) -> _Parsed | Refusal:
        if record.unread is not None:
            return Refusal(ErrorCode.MALFORMED, record.unread)
        try:
            request = parse_request(record.value, self._limits)
        except WireError as wrong:
            message = _with_what_headers_say(wrong, record)
            return Refusal(wrong.code, message, wrong.index, wrong.id, wrong.task, wrong.metadata)
        except Exception as fault:  # noqa: BLE001 -- a pure stage's fault is this record's `internal`
            rejected = internal("decode", fault)
            return Refusal(rejected.code, rejected.message)
        try:
            self._check_headers(record)
            task = self._task_for(request)
            texts = task.parse(request)
            _check_deadline(request, record, now_unix_ms)
            return _Parsed(request, task, texts)
        except Exception as fault:  # noqa: BLE001
            return refusal_of(request, fault, "parse")

    def _check_headers(self, record: SourceRecord) -> None:
        if record.misnamed is not None:
            raise RecordRejected(ErrorCode.SCHEMA, record.misnamed)
        try:
            check_request_headers(record.headers)
        except HeadersTooLarge as too_large:
            raise RecordRejected(ErrorCode.SCHEMA, str(too_large)) from None

    def _task_for(self, request: ScoringRequest) -> Task:
        if request.model is not None and request.model not in self._served_names:
            names = ", ".join(sorted(self._served_names))
            raise RecordRejected(ErrorCode.WRONG_MODEL, f"`model` is not served here; this worker serves {names}")
        task = self._tasks.get(request.task)
        if task is None:
            able = ", ".join(sorted(self._tasks))
            raise RecordRejected(
                ErrorCode.UNSUPPORTED_TASK, f"the loaded model cannot do task `{request.task}`; it can do {able}"
            )
        return task

    def _encode(self, parsed: Sequence[_Parsed]) -> Iterator[Sequence[EncodedText] | Exception]:
        """The texts of each record, from one call of the tokenizer; alone, where the call for all fails."""
        try:
            encoded = self._encoder.encode([text for one in parsed for text in one.texts])
        except Exception:  # noqa: BLE001 -- one record's text may be at fault: find out whose
            for one in parsed:
                try:
                    yield self._encoder.encode(one.texts)
                except Exception as fault:  # noqa: BLE001
                    yield fault
            return
        position = 0
        for one in parsed:
            yield encoded[position : position + len(one.texts)]
            position += len(one.texts)

    def _prepare(self, parsed: _Parsed, texts: Sequence[EncodedText] | Exception) -> Outcome:
        request = parsed.request
        if isinstance(texts, Exception):
            return refusal_of(request, texts, "tokenise")
        try:
            prepared = parsed.task.prepare(request, texts)
        except Exception as fault:  # noqa: BLE001
            return refusal_of(request, fault, "prepare")
        return Later(partial(self._prepared, request, prepared)) if isinstance(prepared, Later) else prepared

    async def _prepared(self, request: ScoringRequest, later: Later[Prepared]) -> Prepared | Refusal:
        try:
            return await later.work()
        except Exception as fault:  # noqa: BLE001
            return refusal_of(request, fault, "prepare")


def _with_what_headers_say(wrong: WireError, record: SourceRecord) -> str:
    """The message; of a value that is no JSON, with what serialised it, where the record's headers say so."""
    said = named_headers({name for name, _ in record.headers}) if wrong.code == ErrorCode.MALFORMED else None
    return f"{wrong.message}; {said}" if said else wrong.message


def _check_deadline(request: ScoringRequest, record: SourceRecord, now_unix_ms: int) -> None:
    if request.timeout_ms is not None and not EARLIEST_UNIX_MS <= record.timestamp_ms <= LATEST_UNIX_MS:
        # It would never pass, or have passed for ever: nobody can mean that.
        raise RecordRejected(
            ErrorCode.SCHEMA, f"`timeout_ms` counts from the record's timestamp, and {_wrong_time(record.timestamp_ms)}"
        )
    deadline = deadline_unix_ms(request, record)
    if deadline is not None and deadline <= now_unix_ms:
        raise RecordRejected(ErrorCode.EXPIRED, EXPIRED)


def _wrong_time(timestamp_ms: int) -> str:
    """What is wrong with a record's timestamp that is not of 2001 to 2286."""
    remedy = "have the producer stamp it in milliseconds, or give `deadline_unix_ms`"
    if timestamp_ms == NO_TIMESTAMP:
        return f"it has none: {remedy}"
    if timestamp_ms > LATEST_UNIX_MS:
        return f"that is after the year 2286, as one in microseconds is: {remedy}"
    if timestamp_ms < 0:
        return f"that is before 1970: {remedy}"
    year = datetime.fromtimestamp(timestamp_ms / 1000, UTC).year
    return f"that is of {year}, as one in seconds is: {remedy}"


def refusal_of(request: ScoringRequest, fault: Exception, stage: str) -> Refusal:
    """Whatever a pure stage raised for this request, as the answer it gets."""
    rejected = fault if isinstance(fault, RecordRejected) else internal(stage, fault)
    return Refusal(
        rejected.code,
        rejected.message,
        rejected.index,
        request.id,
        request.task,
        request.metadata,
        request.ttl_seconds,
    )


def refusal_for(item: Item, code: ErrorCode, message: str) -> Refusal:
    """The answer to a prepared request that the flow refuses."""
    assert item.prepared is not None
    return refusal_of(item.prepared.request, RecordRejected(code, message), "admit")
