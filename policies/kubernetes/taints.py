"""Taints of nodes: which ones a pod tolerates, and which ones describe a state or role of the node."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NodeTaint", "node_taint", "tolerates_key", "tolerates_taint"]


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
