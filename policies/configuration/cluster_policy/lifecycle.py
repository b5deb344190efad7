"""Lifecycle: one ClusterPolicy at a time, and what must not be taken away under running pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


@CLUSTER_POLICY.rule(
    "GA105",
    "A cluster has one ClusterPolicy",
    default=Severity.DENY,
    remedy="change the existing one, or delete it first",
    source="github.com/NVIDIA/gpu-operator controllers/active_config.go",
    rows=("A-01",),
    wrong="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: second}
    ---
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy, creationTimestamp: "2026-01-05T09:00:00Z"}""",
    right="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}""",
)
def one_cluster_policy(change: Change) -> Iterator[Problem]:
    """The operator follows the oldest ClusterPolicy and ignores every other, without an event and without an error.

    Edits to an ignored one do nothing, which is found out node by node.
    """
    others = [name_of(policy) for policy in change.facts.known("ClusterPolicy") if name_of(policy) != change.name]
    if change.created and others:
        path = FieldPath(["metadata", "name"])
        yield problem(path, f'"{change.name}" would be ignored, because the operator follows the older "{others[0]}"')
