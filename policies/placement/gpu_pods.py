"""Which pods get GPUs, in any of the ways there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.resources import asks_for_gpu, is_gpu_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.pods import Pod
    from policies.view import ClusterView

__all__ = ["gets_gpu"]


def gets_gpu(pod: Pod, namespace: str, view: ClusterView) -> bool:
    """Whether a pod gets a GPU by an extended resource, an implicit class name, or a claim that the view can see."""
    return any(
        asks_for_gpu(name) and not _is_zero(amount)
        for container in pod.all_containers
        for name, amount in {**container.limits, **container.requests}.items()
    ) or any(is_gpu_class(name) for name in _claimed_classes(pod, namespace, view))


def _is_zero(amount: Any) -> bool:
    try:
        return parse_quantity(amount) == 0
    except QuantityError:
        return False


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
