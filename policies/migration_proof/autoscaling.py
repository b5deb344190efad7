"""Whether autoscalers still create nodes for pods with claims.

Source: karpenter.sh/docs/tasks/dra (alpha, settings.enableDRA); kubernetes/autoscaler issues 7783 and 10199
(--enable-dynamic-resource-allocation; scaling from zero depends on the cloud provider).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import items_at, lookup
from policies.migration_proof.cells import Cell
from policies.outcome import Outcome
from policies.phrases import format_list
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from policies.view import ClusterView, Unknown

__all__ = ["autoscaling_cell"]

_AUTOSCALER = "cluster-autoscaler"


def autoscaling_cell(view: ClusterView, pools: Sequence[Object] | Unknown) -> Cell:
    """What becomes of autoscaling with Karpenter's pools, the same for all workloads that are migrated."""
    if pools is UNKNOWN:
        return Cell(Outcome.UNKNOWN, "whether Karpenter creates nodes is unknown, because NodePools cannot be read")
    growing = [name_of(each) for each in pools if lookup(each, ("spec", "replicas")) is None]
    if growing:
        sentence = (
            f"Karpenter (NodePool {format_list(sorted(growing))}) creates no nodes for pods with claims unless its support "
            "of DRA, which is alpha, is on"
        )
        return Cell(Outcome.LOST, sentence)
    deployments = view.list("Deployment")
    if deployments is UNKNOWN:
        return Cell(Outcome.UNKNOWN, "whether a Cluster Autoscaler runs is unknown, because Deployments cannot be read")
    if any(map(_is_autoscaler, deployments)):
        sentence = (
            "the Cluster Autoscaler creates nodes for pods with claims with --enable-dynamic-resource-allocation; from zero "
            "nodes that depends on the cloud provider"
        )
        return Cell(Outcome.UNKNOWN, sentence)
    return Cell(Outcome.KEPT, "no autoscaler is seen")


def _is_autoscaler(deployment: Object) -> bool:
    containers = items_at(deployment, ("spec", "template", "spec", "containers"))
    names = [name_of(deployment), *(str(lookup(each, ("image",))) for each in containers)]
    return any(_AUTOSCALER in name for name in names)
