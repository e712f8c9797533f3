"""Shape: what the engine returned, or why there is nothing to return, as the bytes that answer the record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from consumer.interfaces import Task
from consumer.records import (
    EngineOutput,
    Headers,
    Later,
    Message,
    ModelIdentity,
    Outcome,
    Prepared,
    Refusal,
    Shaped,
    SourceRecord,
)
from consumer.stages.prepare import refusal_of
from schemas import headers as wire_headers
from schemas.dead_letter import Reason, Record, dead_letter, unread_dead_letter
from schemas.errors import ErrorCode
from schemas.wire import SealedResult, seal_result


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What the topics take, and who signs."""

    max_result_bytes: int
    max_dead_letter_bytes: int
    default_ttl_seconds: int
    group_id: str
    worker_version: str


class Answerer:
    """Turns outcomes into results and dead letters, for one model."""

    def __init__(self, tasks: Mapping[str, Task], model: ModelIdentity, limits: AnswerLimits) -> None:
        self._tasks = tasks
        self._model = model
        self._limits = limits

    def answer(
        self, record: SourceRecord, attempt: int, prepared: Prepared, outputs: Sequence[EngineOutput]
    ) -> Outcome | Later[Outcome]:
        """The result of a scored request; an error result where nothing of it can be answered."""
        try:
            shaped = self._tasks[prepared.request.task].shape(prepared, outputs)
            if isinstance(shaped, Later):
                return Later(partial(self._answered, record, attempt, prepared, shaped))
            return self._result(record, attempt, prepared, shaped)
        except Exception as fault:  # noqa: BLE001 -- a pure stage's fault is this record's `internal`
            return self.refuse(record, attempt, refusal_of(prepared.request, fault, "shape"))

    async def _answered(self, record: SourceRecord, attempt: int, prepared: Prepared, later: Later[Shaped]) -> Outcome:
        try:
            shaped = await later.work()
            return await asyncio.to_thread(self._result, record, attempt, prepared, shaped)
        except Exception as fault:  # noqa: BLE001
            return self.refuse(record, attempt, refusal_of(prepared.request, fault, "shape"))

    def refuse(self, record: SourceRecord, attempt: int, refusal: Refusal) -> Outcome:
        """An error result where the id is known, and a dead letter where the contract's table says so."""
        letter = self._dead_letter(record, attempt, refusal) if refusal.code.dead_letter else None
        if refusal.id is None:
            return Outcome(result=None, dead_letter=letter, code=refusal.code)
        key, sealed, headers = self._fitting_error(record, refusal)
        return Outcome(
            result=sealed,
            result_key=key,
            result_headers=headers,
            id=refusal.id,
            ttl_seconds=refusal.ttl_seconds or self._limits.default_ttl_seconds,
            dead_letter=letter,
            code=refusal.code,
            force=_forced(record),
        )

    def _result(self, record: SourceRecord, attempt: int, prepared: Prepared, shaped: Shaped) -> Outcome:
        request = prepared.request
        sealed = seal_result(
            status="ok",
            source=_source(record),
            id=request.id,
            task=request.task,
            model=self._model,
            scale=shaped.scale,
            results=shaped.results,
            failed=sorted(one["index"] for one in shaped.results if "error" in one),
            truncated=sorted(prepared.truncated),
            prompt_tokens=prepared.prompt_tokens,
            error=None,
            metadata=request.metadata,
            dropped=(),
        )
        headers = _headers(record, record.headers, request.id, "ok")
        size_bytes = _record_bytes(record.key, sealed, headers)
        if size_bytes > self._limits.max_result_bytes:
            message = f"the result has {size_bytes} bytes, the topic takes {self._limits.max_result_bytes}"
            refusal = Refusal(
                ErrorCode.RESULT_TOO_LARGE,
                message,
                None,
                request.id,
                request.task,
                request.metadata,
                request.ttl_seconds,
            )
            return self.refuse(record, attempt, refusal)
        return Outcome(
            result=sealed,
            result_key=record.key,
            result_headers=headers,
            id=request.id,
            ttl_seconds=request.ttl_seconds or self._limits.default_ttl_seconds,
            force=_forced(record),
        )

    def _fitting_error(self, record: SourceRecord, refusal: Refusal) -> tuple[bytes | None, SealedResult, Headers]:
        """Key, result and headers. They always fit: what can be done without is left out, in this order, and named."""
        assert refusal.id is not None
        had = {"metadata": refusal.metadata is not None, "headers": bool(record.headers), "key": record.key is not None}
        expendable = [name for name, present in had.items() if present]
        for count in range(len(expendable) + 1):
            dropped = expendable[:count]
            sealed = seal_result(
                status="error",
                source=_source(record),
                id=refusal.id,
                task=refusal.task,
                model=self._model,
                scale=None,
                results=(),
                failed=(),
                truncated=(),
                prompt_tokens=None,
                error=(refusal.code, refusal.message, refusal.index),
                metadata=None if "metadata" in dropped else refusal.metadata,
                dropped=dropped,
            )
            headers = _headers(record, () if "headers" in dropped else record.headers, refusal.id, "error")
            key = None if "key" in dropped else record.key
            if _record_bytes(key, sealed, headers) <= self._limits.max_result_bytes:
                break
        return key, sealed, headers

    def _dead_letter(self, record: SourceRecord, attempt: int, refusal: Refusal) -> Message:
        reason = Reason(
            code=refusal.code,
            message=refusal.message,
            id=refusal.id,
            source_topic=record.topic,
            source_partition=record.partition,
            source_offset=record.offset,
            source_timestamp_ms=record.timestamp_ms,
            group=self._limits.group_id,
            attempts=attempt,
            worker_version=self._limits.worker_version,
        )
        max_bytes = self._limits.max_dead_letter_bytes
        if record.unread is not None:
            letter = unread_dead_letter(record.key, reason, max_bytes=max_bytes)
        else:
            letter = dead_letter(record.key, record.value, record.headers, reason, max_bytes=max_bytes)
        return Message(letter.key, letter.value, letter.headers)


def _source(record: SourceRecord) -> tuple[str, int, int, int]:
    return (record.topic, record.partition, record.offset, record.timestamp_ms)


def _forced(record: SourceRecord) -> bool:
    return any(key == wire_headers.REPLAY_FORCE for key, _ in record.headers)


def _headers(record: SourceRecord, carried: Headers, request_id: str, status: str) -> Headers:
    return wire_headers.result_headers(
        carried,
        id=request_id,
        status=status,
        source_topic=record.topic,
        source_partition=record.partition,
        source_offset=record.offset,
    )


def _record_bytes(key: bytes | None, sealed: SealedResult, headers: Headers) -> int:
    return Record(key, None, headers).size_bytes + sealed.size_bytes
