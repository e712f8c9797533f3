"""Trace context from a request to its result, and the spans of records that are sampled."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from consumer.adapters.trace_export import check_tracing, tracer_from_environment
from consumer.errors import SettingsInvalid
from consumer.records import Headers, Message
from consumer.startup import refuse
from tests.flow.conftest import World

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-{PARENT}-{flags}".encode() for flags in ("01", "00"))


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Every span that was exported."""
    return InMemorySpanExporter()


@pytest.fixture
def traced_world(make_world: Callable[..., World], spans: InMemorySpanExporter) -> World:
    """A world whose workers export their spans."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return make_world(tracer=provider.get_tracer("test"))


def publish(world: World, headers: Headers, document: str = "some words") -> None:
    value = {"id": "r", "task": "score", "query": "q", "document": document}
    world.requests.append(0, Message(None, json.dumps(value).encode(), headers))


async def test_a_sampled_request_gets_a_span_with_its_stages_and_its_result_carries_the_context_on(
    traced_world: World, spans: InMemorySpanExporter
):
    publish(traced_world, (("a", b"1"), ("traceparent", SAMPLED), ("tracestate", b"vendor=x"), ("a", None)))
    await traced_world.start()
    await traced_world.until_all_committed()
    [record, *_] = spans_named(spans, "process score.requests")
    assert record.parent is not None
    assert (f"{record.parent.trace_id:032x}", f"{record.parent.span_id:016x}") == (TRACE, PARENT)
    [result] = traced_world.results.records[0]
    expected = f"00-{TRACE}-{record.context.span_id:016x}-01".encode()
    assert result.headers[:4] == (("a", b"1"), ("traceparent", expected), ("tracestate", b"vendor=x"), ("a", None))
    assert record.attributes is not None
    assert record.attributes["messaging.kafka.offset"] == 0
    stages = [
        span for span in spans.get_finished_spans() if span.parent and span.parent.span_id == record.context.span_id
    ]
    assert {"prepare", "engine", "write"} <= {span.name for span in stages}
    for earlier, later in pairwise(stages):
        assert earlier.end_time is not None
        assert later.start_time is not None
        assert earlier.end_time <= later.start_time
    [micro_batch] = spans_named(spans, "micro-batch")
    assert [link.context.span_id for link in micro_batch.links] == [record.context.span_id]


async def test_a_sampled_request_that_is_refused_says_so_and_its_dead_letter_is_the_original(
    traced_world: World, spans: InMemorySpanExporter
):
    publish(traced_world, (("traceparent", SAMPLED),), "!reject")
    await traced_world.start()
    await traced_world.until_all_committed()
    [record] = spans_named(spans, "process score.requests")
    assert record.status.status_code is trace.StatusCode.ERROR
    assert record.attributes is not None
    assert record.attributes["error.type"] == "engine_rejected"
    [letter] = traced_world.dead.records[0]
    assert dict(letter.headers)["traceparent"] == SAMPLED
    [result] = traced_world.results.records[0]
    assert dict(result.headers)["traceparent"] not in (None, SAMPLED)


@pytest.mark.parametrize("value", [UNSAMPLED, b"", b"nonsense", SAMPLED[:-1], b"ff-" + SAMPLED[3:], b"\xff" * 55, None])
async def test_a_request_that_is_not_sampled_costs_no_span_and_its_context_is_carried_as_it_is(
    traced_world: World, spans: InMemorySpanExporter, value: bytes | None
):
    publish(traced_world, (("traceparent", value),))
    publish(traced_world, ())
    await traced_world.start()
    await traced_world.until_all_committed()
    assert [dict(result.headers).get("traceparent", "absent") for result in traced_world.results.records[0]] == [
        value,
        "absent",
    ]
    assert spans.get_finished_spans() == ()


async def test_without_an_exporter_the_context_is_carried_as_it_is(make_world: Callable[..., World]):
    world = make_world()
    publish(world, (("traceparent", SAMPLED),))
    await world.start()
    await world.until_all_committed()
    [result] = world.results.records[0]
    assert dict(result.headers)["traceparent"] == SAMPLED


@pytest.mark.parametrize(
    "environment",
    [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}],
)
def test_nothing_is_exported_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert check_tracing() == []
    assert tracer_from_environment() is None


@pytest.mark.parametrize(
    ("environment", "exporter"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "otlp_proto_http"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp_proto_grpc"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
    ],
)
def test_the_exporter_that_was_asked_for_is_found(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], exporter: str
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    [finding] = check_tracing()
    assert finding.ok
    assert finding.found == f"spans go to {exporter}"


def test_an_exporter_that_is_not_installed_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier_pigeon")
    with pytest.raises(SettingsInvalid, match=r"carrier_pigeon: no such exporter is installed: pip install"):
        refuse(check_tracing())


def spans_named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]
