"""Sizes of nodes: how many GPUs the largest node has, for pods that request more."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["MORE_THAN_A_NODE"]

MORE_THAN_A_NODE = rule(
    "GA414",
    "A node must have as many GPUs as a pod requests",
    default=Severity.WARN,
    why="""
    All containers of a pod run on one node, so a pod that requests more GPUs than the largest node has stays Pending. The
    scheduler only says that they are insufficient. That may pass: a larger node may join. More often the total of a job
    was written into one pod. All nodes count, full or not, also those that the pod does not select. While nodes are
    unknown, or none has such a GPU, the rule is silent.""",
    remedy="request no more than the largest node has, and use more pods",
    source="status.allocatable of the nodes; ResourceSlices",
)
