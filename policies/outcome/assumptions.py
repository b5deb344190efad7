"""Assumptions: facts that are unknown about a cluster, and what counts in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.feature_gates import offers
from policies.kubernetes.listing import list_command
from policies.nvidia.resources import parse_resource
from policies.phrases import format_list
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.outcome.survey import Survey

__all__ = ["assumptions"]

_DEVICE_KINDS = (("DeviceClass", "DeviceClasses"), ("ResourceSlice", "ResourceSlices"))


def assumptions(survey: Survey) -> Iterator[str]:
    """The unknown facts, what counts instead, and what to add; sentences without full stops."""
    question, cluster, usage = survey.question, survey.cluster, survey.resource_usage
    if not cluster.nodes_known:
        yield (
            "no Nodes are known: each node that a ResourceSlice names counts as one without labels, taints and "
            f"limits (add: {list_command('Node')})"
        )
    if (question.claims or survey.problem.by_resource) and not cluster.claims_known:
        yield f"no ResourceClaims are known, so every device counts as free (add: {list_command('ResourceClaim')})"
    requests_gpu = any(parse_resource(resource) is not None for resource in question.resources)
    if requests_gpu and offers(survey.view, "DRAExtendedResource") is not False:
        unknown = {kind: words for kind, words in _DEVICE_KINDS if survey.view.list(kind) is UNKNOWN}
        if unknown:
            commands = "; ".join(map(list_command, unknown))
            kinds = format_list([*unknown.values()])
            yield f"no {kinds} are known, so only GPUs of device plugins count (add: {commands})"
    if question.pod is None or not cluster.nodes_known:
        return
    if not usage.pods_known:
        yield f"no Pods are known, so nodes count as empty except for devices (add: {list_command('Pod')})"
    elif not usage.others_known:
        yield "only pods that may get GPUs are known, so cpu and memory that other pods take of nodes count as free"
