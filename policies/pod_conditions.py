"""Conditions on what a pod requests, in CEL for matchConditions and in Python for reviews of files.

The API server copies limits to requests before it evaluates a condition, so the CEL reads requests only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import items_at, lookup
from policies.metadata_keys import IGNORE, PREFIX
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "REQUESTS_DEVICES",
    "REQUESTS_DEVICES_OR_WISHES",
    "REQUESTS_NVIDIA_DEVICES",
    "PodCondition",
    "has_claims",
    "has_our_annotations",
    "requested_names",
]


@dataclass(frozen=True, slots=True)
class PodCondition:
    """A condition on a pod."""

    expression: str
    """In CEL."""
    holds: Callable[[Any], bool]
    """The same in Python; true or false for a pod of any shape."""

    def __invert__(self) -> PodCondition:
        """The pods for which it does not hold."""
        return PodCondition(f"!({self.expression})", lambda pod: not self.holds(pod))

    def unless(self, expression: str) -> PodCondition:
        """The condition on pods, for calls of which a CEL expression is false; all other calls match."""
        return PodCondition(f"{expression} || ({self.expression})", self.holds)


def requested_names(pod: Any) -> Iterator[str]:
    """The names of the resources that containers of a pod of any shape request or limit."""
    spec = lookup(pod, ("spec",))
    for listed in ("containers", "initContainers"):
        for container in items_at(spec, (listed,)):
            # Without `lookup`, which is slower: a replica does this for every pod of the cluster.
            resources = container.get("resources") if isinstance(container, dict) else None
            if isinstance(resources, dict):
                for section in ("requests", "limits"):
                    amounts = resources.get(section)
                    for name in amounts if isinstance(amounts, dict) else ():
                        if isinstance(name, str):
                            yield name


def has_claims(pod: Any) -> bool:
    """True if a pod of any shape has entries in `spec.resourceClaims`."""
    return bool(lookup(pod, ("spec", "resourceClaims")))


def has_our_annotations(pod: Any) -> bool:
    """True if a pod of any shape has an annotation under `gpu-admission.io/`, also an unknown one.

    The annotation that waives findings does not count: alone it is no reason to review a pod.
    """
    annotations = lookup(pod, ("metadata", "annotations"))
    return isinstance(annotations, dict) and any(
        isinstance(key, str) and key.startswith(PREFIX) and key != IGNORE for key in annotations
    )


def _requests_devices(pod: Any) -> bool:
    return has_claims(pod) or any("/" in name for name in requested_names(pod))


def _requests_nvidia_devices(pod: Any) -> bool:
    prefixes = (VENDOR_PREFIX, IMPLICIT_PREFIX)
    return has_claims(pod) or any(name.startswith(prefixes) for name in requested_names(pod))


REQUESTS_NVIDIA_DEVICES = PodCondition(
    """\
has(object.spec) && has(object.spec.containers) && (
(has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/"))) ||
(has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
has(c.resources.requests) && c.resources.requests.exists(k,
k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/")))))""",
    _requests_nvidia_devices,
)
"""An NVIDIA resource, a DeviceClass or a claim."""

REQUESTS_DEVICES = PodCondition(
    """\
has(object.spec) && has(object.spec.containers) && (
(has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
k.contains("/"))) ||
(has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/")))))""",
    _requests_devices,
)
"""Any extended resource, or a claim. A DeviceClass may give its GPUs any name."""

REQUESTS_DEVICES_OR_WISHES = PodCondition(
    f"""\
(has(object.metadata.annotations) && object.metadata.annotations.exists(k,
k.startsWith("gpu-admission.io/") && k != "gpu-admission.io/ignore")) || (
{REQUESTS_DEVICES.expression})""",
    lambda pod: has_our_annotations(pod) or _requests_devices(pod),
)
"""Any extended resource, or a claim, or wishes in annotations."""
