"""Finds pods that escaped: asked after all mutation, when what is there is what will be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.amounts import asks, gpu_resources, limit_path, read_amounts
from policies.conversion.constraints import NodeConstraints
from policies.conversion.convert import convert
from policies.conversion.record import converted_by
from policies.conversion.rules import ESCAPED, SELECTS_AGAIN, STILL_ASKS
from policies.dra.templates import is_our_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.nvidia.wishes import Wish
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["check"]


def check(
    pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, wish: Wish, own: Pod | None = None
) -> Iterator[Finding]:
    """What is wrong with a pod of a converting namespace that still asks the device plugin; arguments as for `convert`.

    A pod that conversion leaves alone may ask; one that holds a claim of ours, or that conversion would change, may not.
    """
    if pod.past_scheduling:
        return
    earlier = converted_by(pod, namespace)
    if not settings.conversion.keep_translated_labels and earlier is not None:
        yield from _selects_again(pod)
    if not asks(pod):
        return
    used = pod.used_claims
    uses_ours = earlier is not None or any(
        claim.get("name") in used and is_our_name(claim.get("resourceClaimTemplateName"))
        for claim in pod.resource_claims
    )
    converted = None if uses_ours else convert(pod, namespace, view, settings, wish, own)
    if converted is not None and (converted.obstacles or converted.asked is None):
        return
    amounts = read_amounts(pod).of
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            if amounts.get(container.name, {}).get(resource) == 0:
                continue
            path = limit_path(container, resource)
            if uses_ours:
                other = "goes by new names" if earlier is not None and earlier.classes else "holds a converted claim"
                yield STILL_ASKS.finding(path, f"is asked of the device plugin, and the pod {other} as well")
            else:
                yield ESCAPED.finding(path, "is still asked of the device plugin; the pod has not been converted")


def _selects_again(pod: Pod) -> Iterator[Finding]:
    """Conditions on GPU labels that somebody put into a pod after it was converted."""
    for path, key in NodeConstraints.of(pod.spec).places():
        yield SELECTS_AGAIN.finding(path, f"{key} selects nodes by their GPUs, and this pod has been converted")
