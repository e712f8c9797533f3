"""The values of the Helm chart: every name, type, default and meaning, once.

From this model `python -m scripts.chart` writes values.yaml, values.schema.json and docs/values.md, so they cannot
differ. Names are written here as Python's and read by Helm in camelCase. What Kubernetes itself defines (tolerations,
affinity, ...) is passed on as it is, and its fields are checked by Kubernetes's own schema.
"""

from __future__ import annotations

from pydantic import PositiveInt

from scripts.chart.monitoring import MetricsValues, TracingValues
from scripts.chart.pod import (
    CheckValues,
    ExistingSecretsValues,
    GpuValues,
    ImageValues,
    ModelCacheValues,
    ProbesValues,
    ResourcesValues,
    ScratchValues,
    ServiceAccountValues,
    SharedMemoryValues,
    UpdateStrategyValues,
)
from scripts.chart.scaling import AutoscalingValues
from scripts.chart.section import (
    Affinity,
    Container,
    EnvFromSource,
    KubernetesLabels,
    Labels,
    Lifecycle,
    LocalObjectReference,
    Name,
    Object,
    PodSecurityContext,
    PodSpec,
    Section,
    SecurityContext,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    VolumeMount,
)
from scripts.chart.surroundings import NetworkPolicyValues, PodDisruptionBudgetValues


class Values(Section):
    """All values."""

    image: ImageValues = ImageValues()
    image_pull_secrets: list[LocalObjectReference] = []
    """[{name: ...}]"""
    name_override: Name = ""
    """In place of the chart's name."""
    fullname_override: Name = ""
    """In place of release-chart."""
    common_labels: KubernetesLabels = {}
    """Of every object."""
    replica_count: PositiveInt = 1
    """Pods; leave it to the autoscaler where there is one."""
    workers_per_gpu: PositiveInt = 1
    """Workers, each with an engine of its own, that share a GPU; without GPUs: workers of a pod. `config.workers.count`
    is made from it, and the worker divides its GPUs among them."""
    gpu: GpuValues = GpuValues()
    config: Object = {}
    """The worker's settings, the tree of docs/settings.md, as a file in a ConfigMap. kafka.bootstrap_servers and
    engine.model are required; redis.url is, here when it holds no password, or in existingSecrets.settings."""
    existing_secrets: ExistingSecretsValues = ExistingSecretsValues()
    model_cache: ModelCacheValues = ModelCacheValues()
    shared_memory: SharedMemoryValues = SharedMemoryValues()
    scratch: ScratchValues = ScratchValues()
    resources: ResourcesValues = ResourcesValues()
    check: CheckValues = CheckValues()
    probes: ProbesValues = ProbesValues()
    termination_grace_period_seconds: PositiveInt | None = None
    """Default, and the least that is accepted: what a worker may take to drain, commit, leave the group and stop."""
    progress_deadline_seconds: PositiveInt | None = None
    """Default: engine.start_timeout_seconds and ten minutes for the image."""
    update_strategy: UpdateStrategyValues = UpdateStrategyValues()
    node_selector: KubernetesLabels = {}
    """Such as the GPU's kind."""
    tolerations: list[Toleration] = []
    """Such as that of a GPU node's taint."""
    affinity: Affinity = {}
    """As Kubernetes defines it."""
    topology_spread_constraints: list[TopologySpreadConstraint] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
    """How pods are spread; by default over nodes, where there is room. One without a labelSelector gets this
    release's."""
    priority_class_name: str = ""
    """Of the pods."""
    runtime_class_name: str = ""
    """Such as nvidia, where the cluster has it."""
    deployment_annotations: Labels = {}
    """Annotations of the Deployment, such as those of a controller that restarts it when a Secret changes."""
    pod_annotations: Labels = {}
    """Of the pods."""
    lifecycle: Lifecycle = {}
    """Hooks of the worker's container, as Kubernetes defines them. A preStop hook takes its time from the grace period:
    raise terminationGracePeriodSeconds by it."""
    pod_labels: KubernetesLabels = {}
    """Of the pods."""
    pod_security_context: PodSecurityContext = {
        "runAsNonRoot": True,
        "runAsUser": 2000,
        "runAsGroup": 0,
        "fsGroup": 2000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    """The image's user is 2000:0."""
    container_security_context: SecurityContext = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    """Every place that is written to is a volume."""
    service_account: ServiceAccountValues = ServiceAccountValues()
    autoscaling: AutoscalingValues = AutoscalingValues()
    pod_disruption_budget: PodDisruptionBudgetValues = PodDisruptionBudgetValues()
    network_policy: NetworkPolicyValues = NetworkPolicyValues()
    metrics: MetricsValues = MetricsValues()
    tracing: TracingValues = TracingValues()
    extra_env: list[Object] = []
    """[{name: ..., value: ...}]; settings belong in `config`."""
    extra_env_from: list[EnvFromSource] = []
    """ConfigMaps and Secrets whose keys become environment variables."""
    extra_volumes: list[Volume] = []
    """More volumes of the pod."""
    extra_volume_mounts: list[VolumeMount] = []
    """More volumeMounts of the worker's container."""
    init_containers: list[Container] = []
    """Run before the worker."""
    extra_containers: list[Container] = []
    """Run beside the worker."""
    extra_pod_spec: PodSpec = {}
    """Any other field of the pod's spec: hostAliases, dnsConfig, schedulerName, resourceClaims, ..."""
    extra_objects: list[Object | str] = []
    """More objects of the release, as YAML or as a template."""
