"""Extended resources that a pod requests: NVIDIA's, and DeviceClasses by their implicit names."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.placement.resources.names import correct_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.pods import Pod

__all__ = ["ResourceRequest", "first_requests", "resource_requests"]


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """The amount of one extended resource that a container requests."""

    resource: str
    amount: int
    path: FieldPath
    """The field in the container's limits, or in its requests if it has no limit."""


def resource_requests(pod: Pod) -> Iterator[ResourceRequest]:
    """The NVIDIA resources that containers request, also misspelt ones, in start order.

    Invalid quantities are skipped: the API server refuses them.
    """
    for container in pod.all_containers:
        for resource, text in {**container.requests, **container.limits}.items():
            if not resource.startswith((VENDOR_PREFIX, IMPLICIT_PREFIX)) and correct_name(resource) is None:
                continue
            try:
                amount = ceil(parse_quantity(text))
            except QuantityError:
                continue
            section = "limits" if resource in container.limits else "requests"
            if amount > 0:
                yield ResourceRequest(resource, amount, container.path / "resources" / section / resource)


def first_requests(requests: Iterable[ResourceRequest]) -> dict[str, ResourceRequest]:
    """The first request for each resource, by resource name."""
    first: dict[str, ResourceRequest] = {}
    for request in requests:
        first.setdefault(request.resource, request)
    return first
