"""The values of the pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from scripts.chart.section import KeyToPath, Labels, Name, Percentage, Quantity, ResourceClaim, Section


class ImageValues(Section):
    """The worker's image, built from the Dockerfile of this repository."""

    repository: str = ""
    """Where you pushed it, without the tag. Required."""
    tag: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$")] = ""
    """Default: the chart's appVersion."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """sha256:...; pins the very bytes, and the tag is then ignored."""
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    """When the node pulls it."""


class GpuValues(Section):
    """The GPUs of one pod."""

    count: NonNegativeInt = 1
    """0: none, the engine computes on CPU (with an image that was built with `--target cpu`)."""
    resource_name: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")] = "nvidia.com/gpu"
    """What the device plugin calls them; a MIG profile has a name of its own, such as nvidia.com/mig-1g.10gb."""


class SecretKey(Section):
    """One key of a Secret that exists."""

    name: Annotated[Name, Field(min_length=1)]
    """Of the Secret."""
    key: Annotated[str, Field(min_length=1)]
    """Within it."""


class SecretFiles(Section):
    """A Secret that exists, as files."""

    name: Annotated[Name, Field(min_length=1)]
    """Of the Secret; its keys are files in /etc/scorestream/secrets/NAME/, and follow when it is rotated."""
    items: list[KeyToPath] = []
    """Only these keys, as Kubernetes' `items`; default: all."""


class ExistingSecretsValues(Section):
    """Secrets that you made. The chart makes none: what stands in values can be read with `helm get values`."""

    settings: dict[str, SecretKey] = {}
    """Secret settings, by their path: `redis.url: {name: score-redis, key: url}`."""
    files: list[SecretFiles] = []
    """Certificates, keys and tokens as files, for the settings that name a file."""
    hugging_face: SecretKey | None = None
    """The token for gated models: {name: hugging-face, key: token}."""


class ModelCacheValues(Section):
    """Where downloaded models are kept."""

    type: Literal["emptyDir", "existingClaim", "create"] = "emptyDir"
    """`emptyDir`: each pod downloads. `existingClaim`: a volume that you made. `create`: one that the chart makes."""
    size: Quantity = "50Gi"
    """The most an emptyDir may take; what a claim asks for."""
    existing_claim: Name = ""
    """The name of the PersistentVolumeClaim."""
    storage_class: str = ""
    """Of the claim that is made; default: the cluster's."""
    access_modes: list[Literal["ReadWriteMany", "ReadWriteOnce"]] = ["ReadWriteMany"]
    """Of the claim that is made; more than one pod needs ReadWriteMany."""
    annotations: Labels = {}
    """Of the claim that is made; it is kept when the release is removed."""
    offline: bool = False
    """The models are all in the cache: never ask the hub."""


class SizeLimit(Section):
    """A volume that lives as long as the pod."""

    size_limit: Quantity = "10Gi"
    """The most it may take."""


class SharedMemoryValues(SizeLimit):
    """Shared memory: PyTorch and the engine's processes talk through it."""

    size_limit: Quantity = "2Gi"
    """The most it may take; counts against the memory limit."""


class ScratchValues(SizeLimit):
    """The home folder and that for temporary files, each; the root file system is read-only."""


class CheckValues(Section):
    """The pod of `helm test`, which runs `scorestream check`."""

    requests: dict[str, Quantity | int | float] = {"cpu": "500m", "memory": "2Gi"}
    """What the scheduler keeps for it."""
    limits: dict[str, Quantity | int | float] = {}
    """The most it may take, for a namespace that asks for limits."""


class ResourcesValues(Section):
    """Resources of the worker's container. The chart adds the GPUs."""

    requests: dict[str, Quantity | int | float] = {}
    """What the scheduler keeps for a pod. Default: 2 cores for each worker, and its memory: limits.memory_bytes and
    6 GiB for each worker, unless `limits` has that resource. The model's size in memory comes on top while it loads."""
    limits: dict[str, Quantity | int | float] = {}
    """A CPU limit throttles the event loop, so leave it out; a memory limit is worth having."""
    claims: list[ResourceClaim] = []
    """Claims of dynamic resource allocation; with `gpu.count: 0`."""


class ProbeValues(Section):
    """How often it is asked."""

    period_seconds: PositiveInt = 10
    """Between two questions."""
    timeout_seconds: PositiveInt = 5
    """For one answer."""
    failure_threshold: PositiveInt = 3
    """So many failures in a row count."""


class StartupProbeValues(ProbeValues):
    """/livez: until the process listens. It answers while the model loads, so no model needs a longer budget."""

    failure_threshold: PositiveInt = 30
    """So many failures in a row count: a start from a cold disk may take minutes."""


class ProbesValues(Section):
    """What the kubelet asks on `config.health.port`."""

    startup: StartupProbeValues = StartupProbeValues()
    """/livez: until the process listens. It answers while the model loads: engine.start_timeout_seconds bounds that."""
    liveness: ProbeValues = ProbeValues()
    """/livez: fails when a restart would help. Never because Kafka or Redis is away."""
    readiness: ProbeValues = ProbeValues()
    """/readyz: the worker is warm, in the group, and no partition is held. It gates rollouts."""


class RollingUpdateValues(Section):
    """How pods are replaced."""

    max_surge: NonNegativeInt | Percentage = 0
    """Pods above the number of replicas; 0, because a surplus pod would wait for a GPU that nobody has."""
    max_unavailable: NonNegativeInt | Percentage = 1
    """Pods below the number of replicas."""


class UpdateStrategyValues(Section):
    """How a new version is rolled out."""

    type: Literal["RollingUpdate", "Recreate"] = "RollingUpdate"
    """`Recreate` stops all workers first."""
    rolling_update: RollingUpdateValues = RollingUpdateValues()
    """How pods are replaced."""


class ServiceAccountValues(Section):
    """The worker does not talk to the API server; an account is for cloud identities."""

    create: bool = True
    """Make one."""
    name: Name = ""
    """Default: the release's full name; with `create: false` the namespace's default account."""
    annotations: Labels = {}
    """Such as the cloud role of an OAUTHBEARER token provider."""
    automount_token: bool = False
    """Mount the API server's token into the pod."""
