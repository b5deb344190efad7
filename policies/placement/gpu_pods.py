"""Which pods get GPUs, in any of the ways there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.deviceclasses import extended_resource_name, selected_types, selector_texts
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.resources import IMPLICIT_PREFIX, is_gpu_class, parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod
    from policies.view import ClusterView

__all__ = ["gets_gpu", "may_get_gpu"]

_GPU_TYPES = frozenset({"gpu", "mig", "vfio"})
"""The types of devices that the driver `gpu.nvidia.com` publishes."""


def may_get_gpu(pod: Pod) -> bool:
    """Whether a pod asks for anything that could be a GPU: an extended resource or a claim. Most pods do not."""
    return bool(pod.resource_claims) or any(
        "/" in name for container in pod.all_containers for name in (*container.limits, *container.requests)
    )


def gets_gpu(pod: Pod, namespace: str, view: ClusterView) -> bool:
    """Whether a pod gets a GPU by an extended resource, an implicit class name, or a claim that the view can see.

    A DeviceClass that somebody made is known by its selectors where the view shows it: its claims, its implicit name
    and the extended resource that it stands for count where devices of `gpu.nvidia.com` can match.
    """
    return any(_brings_gpu(resource, view) for resource in _resources(pod)) or any(
        _is_gpu_class(name, view) for name in _claimed_classes(pod, namespace, view)
    )


def _resources(pod: Pod) -> Iterator[str]:
    """The extended resources that containers ask for, one or more of each."""
    for container in pod.all_containers:
        for name, amount in (*container.limits.items(), *container.requests.items()):
            if "/" in name and not _is_zero(amount):
                yield name


def _is_zero(amount: Any) -> bool:
    try:
        return parse_quantity(amount) == 0
    except QuantityError:
        return False


def _brings_gpu(resource: str, view: ClusterView) -> bool:
    if parse_resource(resource) is not None:
        return True
    if resource.startswith(IMPLICIT_PREFIX):
        return _is_gpu_class(resource.removeprefix(IMPLICIT_PREFIX), view)
    return any(map(_selects_gpus, view.derive(_classes_by_resource).get(resource, ())))


def _classes_by_resource(view: ClusterView) -> Mapping[str, list[Object]]:
    """The DeviceClasses that stand for each extended resource; which of several counts is their age's to say."""
    classes: dict[str, list[Object]] = {}
    listed = view.list("DeviceClass")
    for device_class in () if listed is UNKNOWN else listed:
        if name := extended_resource_name(device_class):
            classes.setdefault(name, []).append(device_class)
    return classes


def _is_gpu_class(name: str, view: ClusterView) -> bool:
    if is_gpu_class(name):
        return True
    device_class = view.get("DeviceClass", name)
    return isinstance(device_class, dict) and _selects_gpus(device_class)


def _selects_gpus(device_class: Object) -> bool:
    """Whether devices of `gpu.nvidia.com` can match; the CEL engine is loaded where a text is not NVIDIA's own."""
    texts = selector_texts(device_class)
    return texts is not None and not selected_types(texts).isdisjoint(_GPU_TYPES)


def _claimed_classes(pod: Pod, namespace: str, view: ClusterView) -> Iterator[str]:
    for claim in pod.resource_claims:
        if name := claim.get("resourceClaimTemplateName"):
            template = view.get("ResourceClaimTemplate", name, namespace)
            yield from _classes(lookup(template, ("spec", "spec", "devices", "requests")))
        elif name := claim.get("resourceClaimName"):
            yield from _classes(lookup(view.get("ResourceClaim", name, namespace), ("spec", "devices", "requests")))


def _classes(requests: Any) -> Iterator[str]:
    """The DeviceClasses of requests in any served version: `exactly`, `firstAvailable`, or flat as in v1beta1."""
    for request in requests if isinstance(requests, list) else []:
        alternatives = lookup(request, ("firstAvailable",))
        for part in (request, lookup(request, ("exactly",)), *(alternatives if isinstance(alternatives, list) else [])):
            name = lookup(part, ("deviceClassName",))
            if isinstance(name, str):
                yield name
