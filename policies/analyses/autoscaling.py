"""The autoscalers of a cluster, and whether they create nodes for pods with claims.

Source: kubernetes-sigs/karpenter pkg/operator/options/options.go (ignore-dra-requests, on by default); karpenter.sh/docs/tasks/dra
(settings.enableDRA of 1.15); docs.aws.amazon.com/eks/latest/userguide/device-management.html (EKS Auto Mode);
karpenter-provider-gcp docs/settings.md (ignoreDRARequests).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.names import format_list
from policies.kubernetes.objects import items_at, lookup, mappings_at, name_of
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown


class Growth(NamedTuple):
    """The nodes that an autoscaler creates for pods with claims."""

    outcome: Outcome
    """Kept if it does, lost if it does not, else unknown."""
    sentence: str
    """Without a full stop."""


_CLUSTER_AUTOSCALER = "cluster-autoscaler"
_AUTO_MODE = "eks.amazonaws.com"
"""The API group of the node classes of EKS Auto Mode, whose node pools are Karpenter's."""
_NODE_CLASS_GROUP = ("spec", "template", "spec", "nodeClassRef", "group")
_IGNORES = "IGNORE_DRA_REQUESTS"


def growth_of_pool(pool: Object, view: ClusterView) -> Growth | None:
    """The growth of a NodePool; None for a static one, which has its nodes whatever pods request."""
    if lookup(pool, ("spec", "replicas")) is not None:
        return None
    if lookup(pool, _NODE_CLASS_GROUP) == _AUTO_MODE:
        feature = Feature.ClaimsInAutoMode
        does, since = feature.is_on(view), feature.on_since
        if does is UNKNOWN:
            text = f"EKS Auto Mode creates nodes for pods with claims from Kubernetes {since} on, and the version is unknown"
            return Growth(Outcome.UNKNOWN, text)
        if does:
            return Growth(Outcome.KEPT, "EKS Auto Mode creates nodes for pods with claims")
        return Growth(Outcome.LOST, f"EKS Auto Mode creates no nodes for pods with claims before Kubernetes {since}")
    if any(map(_heeds_claims, view.known_objects("Deployment"))):
        text = (
            f"Karpenter ({_IGNORES}=false) creates nodes for pods with claims, of instance types whose devices it knows"
        )
        return Growth(Outcome.UNKNOWN, text)
    return Growth(
        Outcome.LOST, "Karpenter creates no nodes for pods with claims unless its support of DRA, which is alpha, is on"
    )


def growth_of_cluster(view: ClusterView, pools: Sequence[Object] | Unknown) -> Growth:
    """The growth of all autoscalers that are seen: the worst of them, with the pools that it is true of."""
    if pools is UNKNOWN:
        return Growth(Outcome.UNKNOWN, "whether Karpenter creates nodes is unknown, because NodePools cannot be read")
    found: dict[Growth, list[str]] = {}
    for pool in pools:
        if growth := growth_of_pool(pool, view):
            found.setdefault(growth, []).append(name_of(pool))
    for outcome in (Outcome.LOST, Outcome.UNKNOWN, Outcome.KEPT):
        alike = [
            f"{each.sentence} (NodePool {format_list(sorted(names))})"
            for each, names in found.items()
            if each.outcome is outcome
        ]
        if alike:
            return Growth(outcome, "; ".join(alike))
    deployments = view.list("Deployment")
    if deployments is UNKNOWN:
        return Growth(
            Outcome.UNKNOWN, "whether a Cluster Autoscaler runs is unknown, because Deployments cannot be read"
        )
    if any(map(_is_cluster_autoscaler, deployments)):
        sentence = (
            "the Cluster Autoscaler creates nodes for pods with claims with --enable-dynamic-resource-allocation; from zero "
            "nodes that depends on the cloud provider"
        )
        return Growth(Outcome.UNKNOWN, sentence)
    return Growth(Outcome.KEPT, "no autoscaler is seen")


def _containers(deployment: Object) -> Sequence[Object]:
    return mappings_at(deployment, ("spec", "template", "spec", "containers"))


def _heeds_claims(deployment: Object) -> bool:
    """True if a Deployment is a Karpenter whose variable says not to ignore the claims of pods."""
    return any(
        lookup(variable, ("name",)) == _IGNORES and str(lookup(variable, ("value",))).lower() == "false"
        for container in _containers(deployment)
        for variable in items_at(container, ("env",))
    )


def _is_cluster_autoscaler(deployment: Object) -> bool:
    names = [name_of(deployment), *(str(each.get("image")) for each in _containers(deployment))]
    return any(_CLUSTER_AUTOSCALER in name for name in names)
