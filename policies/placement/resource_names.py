"""Extended resources that a pod requests, and the likely correct name for one that no node advertises."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from policies.kubernetes.phrases import closest
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.nvidia.mig import MIGProfile

__all__ = [
    "PASSED_THROUGH",
    "ResourceRequest",
    "correct_name",
    "first_requests",
    "is_device_plugin_name",
    "nearest_name",
    "nearest_profile",
    "resource_requests",
]


_DOMAIN = VENDOR_PREFIX.removesuffix("/")
_LIKE_DOMAIN = 0.75
"""The minimum likeness of a mistyped domain to `nvidia.com`; `media.com` and other vendors are below it."""
_FORMER = {"alpha.kubernetes.io/nvidia-gpu": "gpu"}
"""Names of GPUs before Kubernetes 1.10; old guides still use them."""
_SLIPS = {
    "gpus": "gpu",
    "gpu.share": "gpu.shared",
    "gpu-shared": "gpu.shared",
    "gpushared": "gpu.shared",
    "gpus.shared": "gpu.shared",
    "shared-gpu": "gpu.shared",
}
PASSED_THROUGH = frozenset({"nvidia.com/pgpu", "nvidia.com/nvswitch"})
"""Whole GPUs and NVSwitches for virtual machines. Source: NVIDIA's guide to confidential containers, which says that the
Kata device plugin uses these names unless it is configured to name each model."""
_MIG = re.compile(r"mig-?([1-7])g[.-]?([0-9]{1,3})gb?((?:\.[a-z.]+)?)")


def is_device_plugin_name(resource: str) -> bool:
    """True if NVIDIA's device plugin can advertise GPUs under this name."""
    parsed = parse_resource(resource)
    return parsed is not None and (not parsed.mig or parsed.profile is not None)


def correct_name(resource: str) -> str | None:
    """The device plugin's name for a misspelt resource; None if the name is correct or unclear.

    The domain may be mistyped (`nvdia.com/gpu`, `nvidia/gpu`) or missing (`gpu`, which the API server refuses), or the
    part behind it mistyped (`nvidia.com/gpus`).
    """
    if is_device_plugin_name(resource):
        return None
    domain, _, name = resource.rpartition("/")
    name = _FORMER.get(resource, name).lower().replace("_", "-")
    name = _SLIPS.get(name, name)
    if name.startswith("mig") and (match := _MIG.fullmatch(name)):
        slices, memory, rest = match.groups()
        name = f"mig-{slices}g.{memory}gb{rest}"
    if not is_device_plugin_name(VENDOR_PREFIX + name):
        return None
    is_meant = domain in ("", _DOMAIN) or resource in _FORMER or closest(domain, [_DOMAIN], likeness=_LIKE_DOMAIN)
    return VENDOR_PREFIX + name if is_meant else None


def nearest_name(resource: str, known: Iterable[str]) -> str | None:
    """The known resource with the most similar name; the common prefix is not compared."""
    guess = closest(resource.removeprefix(VENDOR_PREFIX), [name.removeprefix(VENDOR_PREFIX) for name in known])
    return VENDOR_PREFIX + guess if guess else None


def nearest_profile(wanted: MIGProfile, known: Iterable[MIGProfile]) -> MIGProfile | None:
    """The known profile that is most similar to the wanted one: with as many slices or as much memory."""
    like = [
        profile for profile in known if wanted.gpu_slices == profile.gpu_slices or wanted.memory_gb == profile.memory_gb
    ]
    return min(like, key=lambda profile: (*_difference(wanted, profile), profile), default=None)


def _difference(wanted: MIGProfile, profile: MIGProfile) -> tuple[bool, bool, bool, int]:
    return (
        wanted.gpu_slices != profile.gpu_slices,
        wanted.attributes != profile.attributes,
        wanted.compute_slices != profile.compute_slices,
        abs(wanted.memory_gb - profile.memory_gb),
    )


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
