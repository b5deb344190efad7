"""Gaps: kinds that the audit did not review, because they are hidden or missing, and what is therefore not judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.audit.report import Gap
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.survey import Survey
    from policies.view import ClusterView

__all__ = ["gaps"]

_CONFIGURATION = "their mistakes are not reported"
_CONSEQUENCES = {
    "Namespace": "which namespaces convert or allow admin access, and which of their pods escaped, is unknown",
    "ResourceQuota": "whether opting in switches one off is unknown",
    "LimitRange": "whether one undoes a conversion is unknown",
    "ResourceSlice": "whether there are devices for converted pods is unknown",
    "DeviceClass": "whether the class that a conversion needs exists is unknown",
    "ResourceClaimTemplate": "which converted pods wait for a missing one is unknown",
    **dict.fromkeys(
        ("Node", "ClusterPolicy", "GPUCluster", "NVIDIADriver", "ConfigMap", "ResourceClaim"), _CONFIGURATION
    ),
}
"""What is unknown without the objects of a kind."""

_OF_PODS = (
    "which of them escaped, or use GPUs without a request, is unknown; and pods without a workload are not counted"
)
_OF_WORKLOADS = "what they make is not counted among the workloads of a namespace"
_OF_POOLS = "whether Karpenter creates nodes, but would not for converted pods, is unknown"
_OTHERS = {"Pod": _OF_PODS, "NodePool": _OF_POOLS}


def gaps(survey: Survey, view: ClusterView) -> tuple[Gap, ...]:
    """Kinds that were not reviewed, together if the same reason has the same consequence."""
    together: dict[tuple[str, str], list[str]] = {}
    for kind, reason, consequence in _each(survey, view):
        together.setdefault((reason, consequence), []).append(kind)
    return tuple(Gap(tuple(kinds), reason, consequence) for (reason, consequence), kinds in together.items())


def _each(survey: Survey, view: ClusterView) -> Iterator[tuple[str, str, str]]:
    for kind, consequence in _CONSEQUENCES.items():
        if view.list(kind) is UNKNOWN:
            yield kind, survey.missing.get(kind, ""), consequence
    for kind in dict.fromkeys(kind for _, kind in survey.kinds):
        if kind in survey.missing:
            yield kind, survey.missing[kind], _OTHERS.get(kind, _OF_WORKLOADS)
