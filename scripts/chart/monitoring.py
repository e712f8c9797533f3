"""The values of scraping, alerts and dashboards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scripts.chart.section import HttpUrl, KubernetesLabels, Labels, LabelValue, Objects, Section

Duration = Annotated[str, Field(pattern=r"^([0-9]+(ms|s|m|h|d|w))+$")]

_MATCHER = r'[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[^"]*"'
_MATCHERS = rf"^({_MATCHER}(, *{_MATCHER})*)?$"


class PodMonitorValues(Section):
    """The Prometheus operator's way to find the pods."""

    enabled: bool = False
    """Needs the Prometheus operator."""
    interval: Duration = "15s"
    """Between two scrapes."""
    scrape_timeout: Duration | Literal[""] = ""
    """At most the interval; default: Prometheus's own, or the interval where that is less."""
    labels: KubernetesLabels = {}
    """By which your Prometheus selects it."""
    relabelings: Objects = []
    """Of the target."""
    metric_relabelings: Objects = []
    """Of what was scraped."""


class AlertValues(Section):
    """What differs from an alert's defaults in files/alerts.yaml."""

    enabled: bool | None = None
    """False: leave it out."""
    threshold: float | None = None
    """In the unit of what it looks at."""
    for_: Annotated[Duration | None, Field(alias="for")] = None
    """How long it must hold."""
    severity: str | None = None
    """For routing."""


class PrometheusRuleValues(Section):
    """The alerts, each with a runbook."""

    enabled: bool = False
    """Needs the Prometheus operator."""
    labels: KubernetesLabels = {}
    """By which your Prometheus selects it."""
    alert_labels: Labels = {}
    """Of every alert, for routing."""
    alerts: dict[str, AlertValues] = {}
    """What differs from files/alerts.yaml: `ScorestreamBehind: {threshold: 60, for: 5m}`."""
    runbook_url: HttpUrl = ""
    """Where you publish docs/operate.md; the alert's name follows as #anchor."""


class GrafanaDashboardsValues(Section):
    """Dashboards as ConfigMaps, for Grafana's sidecar."""

    enabled: bool = False
    """Make them."""
    label: str = "grafana_dashboard"
    """The label that the sidecar looks for."""
    label_value: LabelValue = "1"
    """And its value."""
    annotations: Labels = {}
    """Such as grafana_folder."""


class TracingValues(Section):
    """Where spans of sampled requests go."""

    endpoint: HttpUrl = ""
    """http://collector:4318; empty: no spans. Other OTEL_ variables go into extraEnv."""
    protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
    """That the collector speaks there."""


class MetricsValues(Section):
    """/metrics on `config.health.port`: who reads it, who is told, who looks."""

    selector: Annotated[str, Field(pattern=_MATCHERS)] = ""
    """PromQL labels of this release's targets in alerts, as in `job="ranking"`; default: those that the PodMonitor
    gives."""
    pod_monitor: PodMonitorValues = PodMonitorValues()
    prometheus_rule: PrometheusRuleValues = PrometheusRuleValues()
    grafana_dashboards: GrafanaDashboardsValues = GrafanaDashboardsValues()
