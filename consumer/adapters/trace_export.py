"""Where spans go: what OpenTelemetry's own environment variables say, with its SDK if that is installed.

OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_TRACES_EXPORTER) turns it on; OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_* and the rest are read by the SDK. `opentelemetry-instrument scorestream run` works,
too: a provider that is there is used.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Tracer

from consumer.errors import SettingsInvalid

_SCOPE = "scorestream"
_ASKED_BY = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def tracer_from_environment() -> Tracer | None:
    """None when nobody asked for spans. Raises SettingsInvalid for an exporter that is not there."""
    if not isinstance(trace.get_tracer_provider(), ProxyTracerProvider):
        return trace.get_tracer(_SCOPE)
    name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or name == "none" or not any(map(os.environ.get, _ASKED_BY)):
        return None
    if name == "otlp":
        name = _otlp()
    exporters = entry_points(group="opentelemetry_traces_exporter", name=name)
    try:
        # Part of vLLM's dependencies today, and none of ours.
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        [exporter] = (one.load()() for one in exporters)
    except (ImportError, ValueError) as missing:
        raise SettingsInvalid(
            f"OTEL_TRACES_EXPORTER: {name} is not installed ({missing}): run pip install opentelemetry-sdk "
            "opentelemetry-exporter-otlp, or unset the OTEL_ variables"
        ) from missing
    os.environ.setdefault("OTEL_SERVICE_NAME", _SCOPE)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.get_tracer(_SCOPE)


def _otlp() -> str:
    """The entry point's name for the protocol asked for."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    return "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
