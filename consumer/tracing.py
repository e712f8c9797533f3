"""W3C trace context, from a request's headers through the worker to its result's.

A record is traced when its `traceparent` says that it is sampled, and spans are exported (adapters/trace_export.py). It
gets one span, a child of its producer's, with one child for each stage; these are made when it is delivered, from the
times that the item has anyway. Its result carries the context on. A micro-batch with traced records in it gets a span
of its own that links to them. All other records cost a look at their headers, or nothing where nothing is exported:
their context is carried like any other header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from consumer.clock import Clock
from consumer.forming import MicroBatch
from consumer.item import Item, StageSeconds
from consumer.records import Headers, SourceRecord
from schemas.headers import TRACEPARENT, TRACESTATE

_FLAGS = slice(53, 55)
"""Of a traceparent: version-trace_id-parent_id-flags, in hexadecimal digits."""
_SAMPLED = frozenset(b"13579bdf")
_W3C = TraceContextTextMapPropagator()


class Tracing:
    """Of one worker. Without a tracer it does nothing."""

    def __init__(self, tracer: Tracer | None, group_id: str, clock: Clock) -> None:
        self._tracer = tracer
        self._group_id = group_id
        self._clock = clock

    def received(self, items: Iterable[Item]) -> None:
        """Begin the spans of those that are sampled."""
        if self._tracer is None:
            return
        for item in items:
            item.span = self._begin(self._tracer, item.record)

    @contextmanager
    def micro_batch(self, batch: MicroBatch) -> Iterator[None]:
        """While the engine has it."""
        spans = [piece.item.span for piece in batch.pieces if piece.item.span] if self._tracer else []
        if self._tracer is None or not spans:
            yield
            return
        links = [Link(span.get_span_context()) for span in spans]
        size = {"scorestream.sequences": len(batch.inputs), "scorestream.tokens": batch.tokens}
        with self._tracer.start_as_current_span("micro-batch", links=links, attributes=size):
            yield

    def delivered(self, items: Sequence[Item], stages: Sequence[StageSeconds], handed_over_at: float) -> None:
        """A chunk is acknowledged. `stages`: of each item; `handed_over_at`: monotonic seconds."""
        if self._tracer is None:
            return
        written_seconds = self._clock.monotonic() - handed_over_at
        for item, spent in zip(items, stages, strict=True):
            if item.span:
                self._end(self._tracer, item, item.span, {**spent._asdict(), "write": written_seconds})

    def _begin(self, tracer: Tracer, record: SourceRecord) -> Span | None:
        carrier = {name: value for name, value in record.headers if name in (TRACEPARENT, TRACESTATE) and value}
        traceparent = carrier.get(TRACEPARENT, b"")
        if not _SAMPLED.issuperset(traceparent[_FLAGS][1:]) or len(traceparent) < _FLAGS.stop:
            return None
        context = _W3C.extract({name: value.decode(errors="replace") for name, value in carrier.items()})
        producer = get_current_span(context).get_span_context()
        if not (producer.is_valid and producer.trace_flags.sampled):
            return None
        span = tracer.start_span(
            f"process {record.topic}",
            context,
            SpanKind.CONSUMER,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": record.topic,
                "messaging.destination.partition.id": str(record.partition),
                "messaging.kafka.offset": record.offset,
                "messaging.consumer.group.name": self._group_id,
            },
        )
        return span if span.is_recording() else None

    def _end(self, tracer: Tracer, item: Item, span: Span, seconds: dict[str, float]) -> None:
        within = set_span_in_context(span)
        now_ns = self._clock.unix_ms() * 1_000_000
        began_ns = now_ns - round(1e9 * sum(seconds.values()))
        for stage, spent in seconds.items():
            ended_ns = began_ns + round(1e9 * spent)
            if spent:
                tracer.start_span(stage, within, start_time=began_ns).end(ended_ns)
            began_ns = ended_ns
        if item.outcome is not None and item.outcome.code is not None:
            span.set_attribute("error.type", item.outcome.code.value)
            span.set_status(Status(StatusCode.ERROR))
        span.end(now_ns)


def continued(headers: Headers, span: Span) -> Headers:
    """A result's headers with this span as the parent of whoever reads it. None are added, so the size stays."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, set_span_in_context(span))
    mine = carrier[TRACEPARENT].encode()
    return tuple((name, mine if name == TRACEPARENT else value) for name, value in headers)
