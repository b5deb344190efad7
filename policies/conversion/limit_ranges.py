"""LimitRanges: defaults that an explicit zero keeps away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.amounts import gpu_resources
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from policies.kubernetes.pods import Pod

__all__ = ["defaulted_by_limit_range"]


def defaulted_by_limit_range(pod: Pod, namespace: str, view: ClusterView) -> bool:
    """Whether a LimitRange would put a GPU into the pod if its explicit zeros were taken out."""
    ranges = view.list("LimitRange", namespace)
    named = {name for container in pod.all_containers for name in gpu_resources(container)}
    return ranges is not UNKNOWN and any(
        named & set(lookup(limit, (section,)) or {})
        for limit_range in ranges
        for limit in lookup(limit_range, ("spec", "limits")) or []
        for section in ("default", "defaultRequest")
    )
