"""Conditions on what a pod requests or changes, in CEL for matchConditions and in Python for files.

The API server copies limits to requests before it evaluates a condition, so the CEL reads requests only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import IGNORE, PREFIX
from policies.kubernetes.objects import items_at, lookup
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import IMPLICIT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_MOST_ANNOTATIONS, _MOST_CONTAINERS = 5000, 1000
"""Of a pod whose changes are compared in CEL; the containers are those of one list."""


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


@dataclass(frozen=True, slots=True)
class ChangeCondition:
    """A condition on a pod and the pod before an update."""

    expression: str
    """In CEL."""
    holds: Callable[[Any, Any], bool]
    """The same in Python, of the pod and the one before it; true or false for pods of any shape."""


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


def changed_cdi_annotations(pod: Any, before: Any) -> dict[str, Any]:
    """The annotations for CDI that an update adds or changes; a removed one names no device.

    The pod may have any shape.
    """
    annotations = lookup(pod, ("metadata", "annotations"))
    old = lookup(before, ("metadata", "annotations"))
    known = old if isinstance(old, dict) else {}
    return {
        key: value
        for key, value in (annotations.items() if isinstance(annotations, dict) else ())
        if isinstance(key, str)
        and (key == "nvidia.cdi.k8s.io" or key.startswith(("nvidia.cdi.k8s.io/", "cdi.k8s.io/")))
        and (key not in known or known[key] != value)
    }


def changed_images(pod: Any, before: Any) -> list[tuple[str, int]]:
    """The list and index of each container and init container whose image an update changes.

    The pod may have any shape. The API server refuses updates that add, remove or reorder containers.
    """
    return [
        (listed, index)
        for listed in ("containers", "initContainers")
        for index, (new, old) in enumerate(zip_longest(_images(pod, listed), _images(before, listed)))
        if new != old
    ]


def _images(pod: Any, listed: str) -> list[Any]:
    return [lookup(container, ("image",)) or "" for container in items_at(lookup(pod, ("spec",)), (listed,))]


def _is_large(pod: Any) -> bool:
    annotations = lookup(pod, ("metadata", "annotations"))
    return (isinstance(annotations, dict) and len(annotations) > _MOST_ANNOTATIONS) or any(
        len(items_at(lookup(pod, ("spec",)), (listed,))) > _MOST_CONTAINERS
        for listed in ("containers", "initContainers")
    )


CHANGES_GPU_ACCESS = ChangeCondition(
    f"""\
(has(object.metadata.annotations) && size(object.metadata.annotations) > {_MOST_ANNOTATIONS}) ||
(has(object.spec) && ((has(object.spec.containers) && size(object.spec.containers) > {_MOST_CONTAINERS}) ||
(has(object.spec.initContainers) && size(object.spec.initContainers) > {_MOST_CONTAINERS}))) ||
(has(object.metadata.annotations) && object.metadata.annotations.exists(k,
(k == "nvidia.cdi.k8s.io" || k.startsWith("nvidia.cdi.k8s.io/") || k.startsWith("cdi.k8s.io/")) &&
object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k])) || (has(object.spec) && has(oldObject.spec) && (
(has(object.spec.containers) ? object.spec.containers : []).map(c, has(c.image) ? c.image : "") !=
(has(oldObject.spec.containers) ? oldObject.spec.containers : []).map(c, has(c.image) ? c.image : "") ||
(has(object.spec.initContainers) ? object.spec.initContainers : []).map(c, has(c.image) ? c.image : "") !=
(has(oldObject.spec.initContainers) ? oldObject.spec.initContainers : []).map(c, has(c.image) ? c.image : "")))""",
    lambda pod, before: bool(_is_large(pod) or changed_cdi_annotations(pod, before) or changed_images(pod, before)),
)
"""An update that adds or changes an annotation for CDI, or changes the image of a container; any of a large pod.

A condition that fails skips a webhook that fails open. So every field is read by `has` or `?`, and a pod with so many entries
that a comparison of all would cost more than an expression may is not searched.
"""
