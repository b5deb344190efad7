"""Taints of nodes: which ones a pod tolerates, and which ones describe a state or role of the node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup, mappings_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object

__all__ = [
    "UNSCHEDULABLE",
    "NodeTaint",
    "Taint",
    "is_cordoned",
    "node_taint",
    "preventing_taints",
    "tolerates_key",
    "tolerates_taint",
]

UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint of a cordoned node."""
_PREVENTING = ("NoSchedule", "NoExecute")
_CONDITIONS = {
    "node.kubernetes.io/not-ready": "the node is not ready",
    "node.kubernetes.io/unreachable": "the node is unreachable",
    "node.kubernetes.io/memory-pressure": "the node is short of memory",
    "node.kubernetes.io/disk-pressure": "the node is short of disk space",
    "node.kubernetes.io/pid-pressure": "the node is short of process ids",
    "node.kubernetes.io/network-unavailable": "the node has no network yet",
}


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node that keeps pods away, except those that tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    @property
    def condition(self) -> str:
        """The state of the node that the taint stands for, as a clause; empty for all other taints."""
        return _CONDITIONS.get(self.key, "")


def is_cordoned(node: Object) -> bool:
    """True if `kubectl cordon` keeps new pods off a node."""
    return lookup(node, ("spec", "unschedulable")) is True


def preventing_taints(node: Object) -> Iterator[Taint]:
    """The taints that repel pods, without the taint of a cordoned node."""
    for taint in mappings_at(node, ("spec", "taints")):
        if taint.get("effect") in _PREVENTING:
            if taint.get("key") == UNSCHEDULABLE["key"] and is_cordoned(node):
                continue
            yield Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint["effect"]))


def tolerates_key(tolerations: Iterable[dict[str, Any]], key: str, effect: str) -> bool:
    """True if a taint with this key and effect is tolerated, whatever its value.

    A toleration with `operator: Exists` does, for its key or, with an empty key, for all; an empty effect stands for
    every effect. One with `Equal` tolerates one value only, and a taint's value is the administrator's choice.

    Source: k8s.io/api/core/v1/toleration.go ToleratesTaint.
    """
    return any(
        toleration.get("operator") == "Exists"
        and toleration.get("key") in (None, "", key)
        and toleration.get("effect") in (None, "", effect)
        for toleration in tolerations
    )


def tolerates_taint(tolerations: Iterable[dict[str, Any]], taint: dict[str, Any]) -> bool:
    """True if the taint is tolerated, with its value.

    Source: k8s.io/api/core/v1/toleration.go ToleratesTaint.
    """
    return any(
        toleration.get("effect") in (None, "", taint.get("effect"))
        and (toleration.get("key") or "") in ("", taint.get("key"))
        and (
            toleration.get("operator") == "Exists"
            or (toleration.get("value") or "") == (taint.get("value") or "")
            or toleration.get("operator") not in (None, "", "Equal")
        )
        for toleration in tolerations
    )


class NodeTaint(Enum):
    """A state or role of a node that a taint describes."""

    CONDITION = "not ready, cordoned, or short of something"
    CLOUD = "not set up by its cloud yet, or shut down"
    ROLE = "set apart for a role"
    AUTOSCALED = "about to be started or removed by an autoscaler"
    STARTING = "not set up yet"
    PAUSED = "takes no pods for a while"
    NETWORK = "without a network yet"

    @property
    def passes(self) -> bool:
        """True if the taint disappears by itself during the life of the node; a role stays."""
        return self is not NodeTaint.ROLE


_BY_BEGINNING = {
    "node.kubernetes.io/": NodeTaint.CONDITION,
    "node.cloudprovider.kubernetes.io/": NodeTaint.CLOUD,
    "node-role.kubernetes.io/": NodeTaint.ROLE,
    "karpenter.sh/": NodeTaint.AUTOSCALED,
    "ToBeDeletedByClusterAutoscaler": NodeTaint.AUTOSCALED,
    "DeletionCandidateOfClusterAutoscaler": NodeTaint.AUTOSCALED,
    "startup-taint.cluster-autoscaler.kubernetes.io/": NodeTaint.STARTING,
    "ignore-taint.cluster-autoscaler.kubernetes.io/": NodeTaint.STARTING,
    "status-taint.cluster-autoscaler.kubernetes.io/": NodeTaint.PAUSED,
    "node.cilium.io/agent-not-ready": NodeTaint.NETWORK,
}
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/, github.com/kubernetes/autoscaler
cluster-autoscaler/utils/taints, karpenter.sh/docs/concepts/disruption, github.com/cilium/cilium
Documentation/installation/taints.rst."""


def node_taint(key: str) -> NodeTaint | None:
    """The state or role of a node that the taint with this key describes; None for all other taints."""
    return next((kind for beginning, kind in _BY_BEGINNING.items() if key.startswith(beginning)), None)
