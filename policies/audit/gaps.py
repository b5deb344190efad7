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

_CONFIGURATION = "what is wrong with them is not told"
_CONSEQUENCES = {
    "Namespace": "which namespaces convert or allow admin access, and which of their pods escaped, is unknown",
    "ResourceQuota": "whether opting in switches one off is not told",
    "LimitRange": "whether one undoes a conversion is not told",
    "ResourceSlice": "whether there are devices for converted pods is not told",
    "DeviceClass": "whether a conversion has the class that it needs is not told",
    "ResourceClaimTemplate": "which converted pods wait for one in vain is not told",
    **dict.fromkeys(
        ("Node", "ClusterPolicy", "GPUCluster", "NVIDIADriver", "ConfigMap", "ResourceClaim"), _CONFIGURATION
    ),
}
"""What the view is asked for."""

_OF_PODS = (
    "which of them escaped, or take GPUs without asking, is not told; and pods that nothing makes are not counted"
)
_OF_WORKLOADS = "what they make is not counted among the workloads of a namespace"
_OF_POOLS = "whether Karpenter makes nodes, and would not for converted pods, is not told"
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
