"""Finds pods that were not converted, after all mutating webhooks, as they will be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.constraints import NodeConstraints
from policies.conversion.converted_pods import conversion_record
from policies.conversion.gpu_amounts import gpu_resources, limit_path, read_amounts, requests_gpus
from policies.conversion.templates import is_our_name
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.conversion.record import Conversion, ConversionRecord
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


@PODS.rule(
    "GA320",
    "A converted pod must not request GPUs from the device plugin as well",
    remedy="find the webhook that changes pods after convert-pods.gpu-admission.io and let it run before",
    source="docs/conversion.md",
)
def no_second_devices(pod: Pod, record: ConversionRecord | None) -> Iterator[Problem]:
    """The pod refers to the claim that conversion made and requests the extended resource as well.

    It would get a second set of devices from the device plugin, or stay Pending if there are none.
    """
    other = "uses the new names" if record is not None and record.classes else "holds a converted claim"
    for path in _requested_paths(pod):
        yield Problem(path, f"is requested from the device plugin, and the pod {other} as well")


@PODS.rule(
    "GA321",
    "A pod in a namespace that converts must be converted",
    remedy="create the pod again; if it happens again, find the webhook that adds the resource",
    source="docs/conversion.md",
)
def converted_pod(pod: Pod) -> Iterator[Problem]:
    """The pod would have been converted, but is not.

    A later webhook added the GPU resource, or the conversion webhook was not called. Where GPUs are handed out by
    DRA it would stay Pending.
    """
    for path in _requested_paths(pod):
        yield Problem(path, "is still requested from the device plugin; the pod has not been converted")


def _requested_paths(pod: Pod) -> Iterator[FieldPath]:
    """The paths of GPU resources, without those that are requested zero times."""
    amounts = read_amounts(pod).of
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            if amounts.get(container.name, {}).get(resource) != 0:
                yield limit_path(container, resource)


@PODS.rule(
    "GA325",
    "A converted pod must not select nodes by GPU labels",
    default=Severity.WARN,
    remedy="let the webhook that adds the condition run before convert-pods.gpu-admission.io",
    source="docs/conversion.md",
)
def no_gpu_labels(pod: Pod) -> Iterator[Problem]:
    """Conversion moved such conditions to the claim.

    One that was added later, by another webhook, holds for nodes only: where GPUs are handed out by DRA the labels
    go stale or vanish, and the pod stays Pending.
    """
    for place, key in NodeConstraints.of(pod.spec).places():
        yield Problem(place, f"{key} selects nodes by their GPUs, and this pod has been converted")


def check(pod: Pod, settings: GPUAdmissionPolicy, convert_now: Callable[[], Conversion]) -> Iterator[Finding]:
    """Findings about a pod that still requests GPUs from the device plugin in a namespace that converts.

    A pod that conversion leaves alone may request them; one that holds a claim of ours, or that conversion would change,
    may not.

    Args:
        pod: The pod as it will be stored.
        settings: The administrator's settings.
        convert_now: Returns the conversion of the pod. Called only if that decides: most pods are converted.
    """
    if pod.is_past_scheduling:
        return
    earlier = conversion_record(pod)
    if not settings.conversion.keep_translated_labels and earlier is not None:
        yield from no_gpu_labels(pod)
    if not requests_gpus(pod):
        return
    used = pod.used_claims
    uses_ours = earlier is not None or any(
        claim.get("name") in used and is_our_name(claim.get("resourceClaimTemplateName"))
        for claim in pod.resource_claims
    )
    if uses_ours:
        yield from no_second_devices(pod, earlier)
        return
    converted = convert_now()
    if not converted.obstacles and converted.record is not None:
        yield from converted_pod(pod)
