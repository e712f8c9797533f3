"""What all groups of values share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from scripts.chart import kubernetes

Object = dict[str, Any]
"""What Kubernetes itself defines: passed on as it is."""
Objects = list[dict[str, Any]]


def _of(kind: str) -> WithJsonSchema:
    """The schema is Kubernetes's own; schema.py puts its definition there."""
    return WithJsonSchema({kubernetes.KEY: kind})


Affinity = Annotated[dict[str, Any], _of("Affinity")]
Container = Annotated[dict[str, Any], _of("Container")]
EnvFromSource = Annotated[dict[str, Any], _of("EnvFromSource")]
KeyToPath = Annotated[dict[str, Any], _of("KeyToPath")]
Lifecycle = Annotated[dict[str, Any], _of("Lifecycle")]
LocalObjectReference = Annotated[dict[str, Any], _of("LocalObjectReference")]
NetworkPolicyEgressRule = Annotated[dict[str, Any], _of("NetworkPolicyEgressRule")]
NetworkPolicyPeer = Annotated[dict[str, Any], _of("NetworkPolicyPeer")]
PodSecurityContext = Annotated[dict[str, Any], _of("PodSecurityContext")]
PodSpec = Annotated[dict[str, Any], _of("PodSpec")]
ResourceClaim = Annotated[dict[str, Any], _of("ResourceClaim")]
SecurityContext = Annotated[dict[str, Any], _of("SecurityContext")]
Toleration = Annotated[dict[str, Any], _of("Toleration")]
TopologySpreadConstraint = Annotated[dict[str, Any], _of("TopologySpreadConstraint")]
Volume = Annotated[dict[str, Any], _of("Volume")]
VolumeMount = Annotated[dict[str, Any], _of("VolumeMount")]
Labels = dict[str, str]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")]
KubernetesLabels = dict[str, LabelValue]
Name = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$")]
"""Of an object; empty where there is a default."""
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")]
HttpUrl = Annotated[str, Field(pattern=r"^(https?://\S+)?$")]
Percentage = Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")]


class Section(BaseModel):
    """A group of values; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, alias_generator=to_camel)
