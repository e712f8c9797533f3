"""The values of what stands around the pods."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from scripts.chart.section import NetworkPolicyEgressRule, NetworkPolicyPeer, Percentage, Section


class PodDisruptionBudgetValues(Section):
    """How many pods a node drain may take at once."""

    enabled: bool = True
    """A pod that is not ready may always be evicted."""
    max_unavailable: PositiveInt | Percentage = 1
    """0 would block every node drain."""


class PeerValues(Section):
    """Whom the workers may reach there."""

    ports: list[Annotated[int, Field(ge=1, le=65535)]] = []
    """TCP ports."""
    to: list[NetworkPolicyPeer] = []
    """NetworkPolicyPeers; default: any address."""


class NetworkPolicyValues(Section):
    """Who may talk to the workers, and whom they may reach."""

    enabled: bool = False
    """Needs a network plugin that enforces policies."""
    metrics_from: list[NetworkPolicyPeer] = []
    """NetworkPolicyPeers that may read /metrics; default: any. The kubelet's probes come from the node."""
    kafka: PeerValues = PeerValues()
    """Ports, default: those of kafka.bootstrap_servers; add what the brokers advertise."""
    redis: PeerValues = PeerValues()
    """Ports, default: that of redis.url; all nodes' and sentinels' ports of a cluster."""
    hub: bool = True
    """Port 443 to any address, to download models."""
    extra_egress: list[NetworkPolicyEgressRule] = []
    """More NetworkPolicyEgressRules, for a token provider of your own for instance."""
