"""Taints that tell how a node is or what its role is, rather than whom it is reserved to."""

from __future__ import annotations

from enum import Enum

__all__ = ["NodeTaint", "node_taint"]


class NodeTaint(Enum):
    """What such a taint tells of its node."""

    CONDITION = "not ready, cordoned, or short of something"
    CLOUD = "not set up by its cloud yet, or shut down"
    ROLE = "set apart for a role"
    AUTOSCALED = "about to be started or removed by an autoscaler"
    STARTING = "not set up yet"
    PAUSED = "takes no pods for a while"
    NETWORK = "without a network yet"

    @property
    def passes(self) -> bool:
        """Whether it goes away by itself with the life of the node; a role stays."""
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
    """What the taint with this key tells of its node; None where it reserves the node, or nobody knows."""
    return next((kind for beginning, kind in _BY_BEGINNING.items() if key.startswith(beginning)), None)
