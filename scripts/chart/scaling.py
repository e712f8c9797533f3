"""The values of the autoscaler."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from scripts.chart.section import HttpUrl, KubernetesLabels, Labels, Object, Section


class RecordAgeValues(Section):
    """The second trigger: how old the oldest request is that has no answer. Lag cannot see how large requests are."""

    server_address: HttpUrl = ""
    """Of Prometheus, http://prometheus.monitoring:9090; empty: no second trigger."""
    threshold_seconds: PositiveFloat = 60
    """Above this age pods are added in proportion."""
    query: str = ""
    """Default: the largest age of this release's partitions."""
    authentication_ref: Object = {}
    """A TriggerAuthentication for Prometheus, if it asks for one."""


class FallbackValues(Section):
    """Replicas while KEDA cannot read a trigger: Kafka's, or Prometheus's."""

    failure_threshold: PositiveInt = 3
    """After so many failed readings."""
    behavior: Literal["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"] = (
        "currentReplicasIfHigher"
    )
    """As KEDA defines it. By default as many as there are: who cannot be asked may have the same load as before."""
    replicas: PositiveInt | None = None
    """For a behavior that needs a number; default: minReplicas, at least 1."""


class KedaValues(Section):
    """What only KEDA's ScaledObject has."""

    polling_interval_seconds: PositiveInt = 30
    """Between two readings of the lag."""
    fallback: FallbackValues = FallbackValues()
    """Replicas while KEDA cannot read the lag."""
    record_age: RecordAgeValues = RecordAgeValues()
    """The second trigger."""
    authentication_ref: Object = {}
    """Your own TriggerAuthentication for Kafka, {name: ..., kind: ...}; default: made from the worker's own Secrets."""
    annotations: Labels = {}
    """Of the ScaledObject."""


class HpaValues(Section):
    """What only the HorizontalPodAutoscaler has."""

    metric_name: Annotated[str, Field(min_length=1)] = "scorestream_partition_lag_records"
    """The external metric that your metrics adapter offers: the sum of the group's lag, in records."""
    metric_selector: KubernetesLabels = {}
    """Its labels; default: none."""


class AutoscalingValues(Section):
    """The number of pods by lag, expressed as seconds of work."""

    mode: Literal["none", "keda", "hpa"] = "none"
    """`keda`: KEDA reads the lag from Kafka. `hpa`: Kubernetes reads it from a metrics adapter. Never both."""
    min_replicas: NonNegativeInt = 1
    """0 only with KEDA: no pod while there is nothing to score; the first request then waits for a model to load."""
    max_replicas: PositiveInt | None = None
    """Default, and the most that can be of use: partitions / workers of a pod."""
    partitions: PositiveInt = 48
    """Of the request topic: a partition is read by one worker, so this bounds their number."""
    records_per_second_per_worker: PositiveFloat | None = None
    """What one worker scores, as `scorestream bench` measured it with your model and your requests. Required."""
    backlog_seconds: PositiveFloat = 30
    """How much lag, in seconds of work, a pod may have before another is added."""
    lag_threshold: PositiveInt | None = None
    """Records of lag per pod; default: records_per_second_per_worker x backlogSeconds x workers of a pod."""
    scale_down_stabilization_seconds: Annotated[int, Field(ge=0, le=3600)] = 900
    """A pod is removed only when fewer were enough for so long; at least twice the time a model takes to load."""
    scale_up_period_seconds: Annotated[int, Field(ge=1, le=1800)] = 120
    """At most `scaleUpPods` are added in so long: about the time a model takes to load."""
    scale_up_pods: PositiveInt = 2
    """Each addition and removal stops the whole group for a moment, so they come in steps."""
    keda: KedaValues = KedaValues()
    """What only KEDA's ScaledObject has."""
    hpa: HpaValues = HpaValues()
    """What only the HorizontalPodAutoscaler has."""
