"""The versions of Kubernetes and of NVIDIA's components, as far as objects show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status, forbidden_check
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.phrases import format_list, format_ranges
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["COMPONENTS", "component_checks", "component_of", "kubernetes_checks"]

_OLDEST = (1, 34)
_RENAME = (1, 36)
_DRIVER = "gpu.nvidia.com"
_NUMBER = re.compile(r"v?(\d+)\.(\d+)")
_VERSIONS = "docs/versions.md"
_OLDEST_DRA_DRIVER = (25, 8)
_RENUMBERED = (0, 4)

COMPONENTS = {
    "gpu-operator": "GPU Operator",
    "k8s-device-plugin": "device plugin",
    "k8s-dra-driver-gpu": "DRA driver",
    "dra-driver-nvidia-gpu": "DRA driver",
}
"""NVIDIA's components by the last part of their images. Source: the Helm charts of gpu-operator 26.7, k8s-device-plugin and
k8s-dra-driver-gpu."""


def component_of(image: str) -> tuple[str, str] | None:
    """The component of an image and its tag, which may be empty; None if it is another image."""
    path = image.partition("@")[0].rpartition("/")[2]
    name, _, tag = path.partition(":")
    component = COMPONENTS.get(name)
    return None if component is None else (component, tag)


def kubernetes_checks(
    server: tuple[int, int] | Unknown,
    claims: Sequence[str] | Unknown,
    nodes: Sequence[Object] | Unknown,
    slices: Sequence[Object] | Unknown,
) -> Iterator[Check]:
    """The versions of the API server and of the kubelets, and whether claims are served.

    Args:
        server: The version of the API server.
        claims: The served versions of resource.k8s.io.
        nodes: All nodes.
        slices: All ResourceSlices.
    """
    yield _server_check(server)
    yield _claims_check(claims)
    if isinstance(nodes, Unknown):
        yield forbidden_check("kubelets", "the versions of the kubelets are unknown", "list nodes")
    else:
        yield _kubelet_check(nodes, () if isinstance(slices, Unknown) else slices)


def _server_check(server: tuple[int, int] | Unknown) -> Check:
    if isinstance(server, Unknown):
        return Check(
            name="kubernetes",
            status=Status.UNKNOWN,
            what="the version of the API server is unknown",
            why="you may not read /version",
            remedy="bind the ClusterRole system:public-info-viewer to the user",
        )
    text = f"the API server is Kubernetes {server[0]}.{server[1]}"
    if server < _OLDEST:
        return Check(
            name="kubernetes",
            status=Status.FAILING,
            what=text,
            why="gpu-admission needs 1.34 or newer, which serves claims as resource.k8s.io/v1",
            remedy=f"upgrade Kubernetes first; {_VERSIONS}",
        )
    limits = "" if server >= _RENAME else "; the strategies rename and auto need 1.36"
    return Check(name="kubernetes", status=Status.OK, what=f"{text}{limits}")


def _claims_check(claims: Sequence[str] | Unknown) -> Check:
    if isinstance(claims, Unknown):
        return Check(
            name="claims",
            status=Status.UNKNOWN,
            what="it is unknown whether resource.k8s.io/v1 is served",
            why="discovery failed",
        )
    if "v1" not in claims:
        served = (
            f"it serves {format_list(list(claims))} of this group only" if claims else "it does not serve this group"
        )
        return Check(
            name="claims",
            status=Status.WARNING,
            what="the API server does not serve resource.k8s.io/v1",
            why=f"{served}, so nothing can be converted, and claims are unknown to the rules",
            remedy="enable the feature gate DynamicResourceAllocation and the API resource.k8s.io/v1",
        )
    return Check(name="claims", status=Status.OK, what="resource.k8s.io/v1 is served")


def _kubelet_check(nodes: Sequence[Object], slices: Iterable[Object]) -> Check:
    versions = {name_of(each): str(lookup(each, ("status", "nodeInfo", "kubeletVersion")) or "") for each in nodes}
    with_devices = {
        str(lookup(each, ("spec", "nodeName"))) for each in slices if lookup(each, ("spec", "driver")) == _DRIVER
    }
    old = [
        name
        for name, text in versions.items()
        if name in with_devices and (found := _numbers(text)) is not None and found < _OLDEST
    ]
    if old:
        return Check(
            name="kubelets",
            status=Status.WARNING,
            what=f"kubelets of nodes with GPUs of the DRA driver are older than 1.34: {format_ranges(old)}",
            why="they cannot read claims of resource.k8s.io/v1, so converted pods do not start there [GA336]",
            remedy="upgrade these nodes before a namespace converts",
        )
    counts: dict[str, int] = {}
    for text in versions.values():
        counts[text or "unknown"] = counts.get(text or "unknown", 0) + 1
    parts = [f"{text} on {count:,}" for text, count in sorted(counts.items())]
    noun = "node" if sum(counts.values()) == 1 else "nodes"
    what = f"kubelets are {format_list(parts)} {noun}" if parts else "there are no nodes"
    return Check(name="kubelets", status=Status.OK, what=what)


def _numbers(text: str) -> tuple[int, int] | None:
    match = _NUMBER.match(text)
    return (int(match[1]), int(match[2])) if match else None


class _Found(NamedTuple):
    name: str
    tags: list[str]


def component_checks(
    images: Mapping[tuple[str, str], int] | Unknown, slices: Sequence[Object] | Unknown, converting: Sequence[str]
) -> Iterator[Check]:
    """The components of NVIDIA that run.

    Args:
        images: Component and tag, with the number of running pods.
        slices: All ResourceSlices.
        converting: The namespaces that convert or would, by their label.
    """
    publishes = not isinstance(slices, Unknown) and any(lookup(each, ("spec", "driver")) == _DRIVER for each in slices)
    if isinstance(images, Unknown):
        what = "it is unknown which GPU Operator, device plugin and DRA driver run"
        yield forbidden_check("components", what, "list pods in all namespaces")
        if publishes:
            yield _dra_driver_check([], converting, publishes=True)
        return
    found = [
        _Found(name, sorted({tag for each, tag in images if each == name}))
        for name in dict.fromkeys(COMPONENTS.values())
    ]
    for name, tags in found:
        if name == "DRA driver":
            yield _dra_driver_check(tags, converting, publishes=publishes)
        elif tags:
            yield Check(
                name="components",
                status=Status.OK,
                what=f"{name} {format_list([tag or 'of unknown version' for tag in tags])}",
            )
    missing = [name for name, tags in found if not tags and name != "DRA driver"]
    if missing and images:
        yield Check(
            name="components", status=Status.OK, what=f"{format_list(missing)} not seen; gpu-admission needs none"
        )


def _dra_driver_check(tags: Sequence[str], converting: Sequence[str], *, publishes: bool) -> Check:
    old = [tag for tag in tags if (numbers := _numbers(tag)) is not None and not _is_supported(numbers)]
    if old:
        return Check(
            name="components",
            status=Status.WARNING,
            what=f"DRA driver {format_list(old)} is older than what gpu-admission knows",
            why="conversion needs 25.8 to 25.12, or 0.4 and newer",
            remedy=f"upgrade the DRA driver; {_VERSIONS}",
        )
    if tags or publishes:
        text = format_list(list(tags)) if tags else "of unknown version, seen by its ResourceSlices"
        return Check(name="components", status=Status.OK, what=f"DRA driver {text}")
    if converting:
        return Check(
            name="components",
            status=Status.WARNING,
            what="no DRA driver of NVIDIA is seen",
            why=f"pods of {format_list(list(converting))} would convert to claims, which nothing could allocate",
            remedy="install NVIDIA's DRA driver before these namespaces convert, or remove their label gpu-admission.io/dra",
        )
    return Check(name="components", status=Status.OK, what="no DRA driver of NVIDIA is seen; only conversion needs it")


def _is_supported(numbers: tuple[int, int]) -> bool:
    """Releases after 25.12 are numbered from 0.4."""
    return numbers >= _OLDEST_DRA_DRIVER or _RENUMBERED <= numbers < (1, 0)
