"""Extended resources that a pod asks for: NVIDIA's, and DeviceClasses by their implicit names."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.placement.resources.names import correct_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.pods import Pod

__all__ = ["Ask", "asks", "first_asks"]


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container asks of one resource."""

    resource: str
    amount: int
    path: FieldPath
    """Where: in its limits, or in its requests where it has no limit."""


def asks(pod: Pod) -> Iterator[Ask]:
    """Everything of NVIDIA's that the containers ask for, misspelt or not, in the order in which they start.

    What is no amount is passed over: the API server refuses it.
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
                yield Ask(resource, amount, container.path / "resources" / section / resource)


def first_asks(pod: Pod) -> dict[str, Ask]:
    """By resource, where the pod asks for it first."""
    first: dict[str, Ask] = {}
    for ask in asks(pod):
        first.setdefault(ask.resource, ask)
    return first
