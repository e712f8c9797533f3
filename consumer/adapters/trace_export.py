"""Where spans go: what OpenTelemetry's own environment variables say, with its SDK if that is installed.

OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_TRACES_EXPORTER) turns it on; OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_* and the rest are read by the SDK. `opentelemetry-instrument scorestream run` works,
too: a provider that is there is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Tracer

from consumer.startup import Finding

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_SCOPE = "scorestream"
_ASKED_BY = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def check_tracing() -> list[Finding]:
    """Whether the exporter that was asked for is there; nothing where none was."""
    if (name := _exporter_name()) is None:
        return []
    try:
        _exporter_class(name)
    except ImportError as missing:
        fix = "pip install opentelemetry-sdk opentelemetry-exporter-otlp, or unset the OTEL_ variables"
        return [Finding("tracing", ok=False, found=f"OTEL_TRACES_EXPORTER: {name}: {missing}", fix=fix)]
    return [Finding("tracing", ok=True, found=f"spans go to {name}")]


def tracer_from_environment() -> Tracer | None:
    """None when nobody asked for spans. After check_tracing()."""
    if not isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        return trace.get_tracer(_SCOPE)
    if (name := _exporter_name()) is None:
        return None
    # Part of vLLM's dependencies today, and none of ours.
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    os.environ.setdefault("OTEL_SERVICE_NAME", _SCOPE)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_exporter_class(name)()))
    trace.set_tracer_provider(provider)
    return provider.get_tracer(_SCOPE)


def _exporter_name() -> str | None:
    """As the SDK's entry points call it; None when spans were not asked for."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or name == "none" or not any(map(os.environ.get, _ASKED_BY)):
        return None
    if name != "otlp":
        return name
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    return "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"


def _exporter_class(name: str) -> Callable[[], SpanExporter]:
    """Raises ImportError."""
    for entry in entry_points(group="opentelemetry_traces_exporter", name=name):
        exporter: Callable[[], SpanExporter] = entry.load()
        return exporter
    raise ImportError("no such exporter is installed")
