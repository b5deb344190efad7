"""Advertised resources: findings for requested resources that nothing in the cluster provides."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.deviceclasses import class_meant, extended_resource_name, other_classes
from policies.dra.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import has_nvidia_class_name
from policies.kubernetes.neighbours import RESOURCES_OF_NEIGHBOURS
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.metadata_keys import DRA_LABEL
from policies.nvidia.identifiers import DRIVER, VENDOR_PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource
from policies.phrases import format_list
from policies.placement.resources.alternatives import alternative_to
from policies.placement.resources.names import correct_name, is_device_plugin_name
from policies.rules import rule
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.decision import Finding
    from policies.dra.device_groups import DeviceGroup
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.kubernetes.pods import Pod
    from policies.nvidia.resources import GPUResource
    from policies.placement.resources.extended_resources import ResourceRequest

__all__ = ["unadvertised_resources"]

_PROFILE = f"{DRIVER}/profile"


def unadvertised_resources(
    pod: Pod, requests: Iterable[ResourceRequest], namespace: str, view: ClusterView
) -> Iterator[Finding]:
    """Warn about each requested resource that no node advertises and no DeviceClass provides.

    `requests` are the first of each resource. While nodes are unknown, or the cluster has none, only certain misspellings
    are reported.
    """
    for request in requests:
        if request.resource.startswith(IMPLICIT_PREFIX):
            yield from _of_class(request, view)
        elif request.resource not in RESOURCES_OF_NEIGHBOURS:
            yield from _of_nodes(request, pod, namespace, view)


NOT_ADVERTISED = rule(
    "GA413",
    "A node must advertise the resource that a pod requests",
    default=Severity.WARN,
    why="""
    A pod that requests a resource that no node has stays Pending, and the scheduler reports only that the resource is
    insufficient. This can be temporary: an autoscaled cluster may add such a node when the first pod requests it. More
    often the name is wrong for this cluster: MIG profiles, MIG strategies, sharing and DRA each change the names of GPU
    resources.""",
    remedy="request a resource that exists, or wait for a node that advertises this one",
    source="status.allocatable of the nodes; github.com/NVIDIA/k8s-device-plugin internal/resource, api/config/v1",
)


def _of_class(request: ResourceRequest, view: ClusterView) -> Iterator[Finding]:
    classes = view.list("DeviceClass")
    wanted = request.resource.removeprefix(IMPLICIT_PREFIX)
    names = [] if classes is UNKNOWN else [name for name in map(name_of, classes) if name]
    if classes is UNKNOWN or wanted in names:
        return
    guess = class_meant(wanted, names)
    if has_nvidia_class_name(wanted) or (guess and has_nvidia_class_name(guess)):
        text = f'there is no DeviceClass "{printable(wanted)}", so the pod would stay Pending'
        yield NOT_ADVERTISED.finding(request.path, text, f'write "{guess}"' if guess else other_classes(names))


def _of_nodes(request: ResourceRequest, pod: Pod, namespace: str, view: ClusterView) -> Iterator[Finding]:
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or not (nodes.nodes or nodes.others):
        if correct := correct_name(request.resource):
            text = "NVIDIA's device plugin advertises no resource of this name"
            yield NOT_ADVERTISED.finding(request.path, text, f'write "{correct}"')
        return
    provided = view.derive(_provided_resources)
    if _is_offered(request.resource, nodes) or (provided is not UNKNOWN and request.resource in provided):
        return
    devices = _dra_devices(request.resource, nodes, view)
    if devices:
        exists, remedy = f"DRA hands out {devices} here", _through_dra(request.resource, pod, namespace, view)
    else:
        exists, remedy = alternative_to(request.resource, nodes)
    doubt = "; DeviceClasses are unknown, so one may provide it" if provided is UNKNOWN else ""
    yield NOT_ADVERTISED.finding(request.path, f"no node advertises it; {exists}{doubt}", remedy)


def _is_offered(resource: str, nodes: GPUNodes) -> bool:
    """True if a node advertises a resource; names outside `nvidia.com/` may be of any device plugin."""
    if resource.startswith(VENDOR_PREFIX):
        return resource in nodes.offers
    return resource in nodes.extended_resources


def _through_dra(resource: str, pod: Pod, namespace: str, view: ClusterView) -> str | None:
    if not is_device_plugin_name(resource):
        correct = correct_name(resource)
        return f'write "{correct}"' if correct else None
    if pod.labels.get(DRA_LABEL) == "disabled":
        return f"remove the pod's label {DRA_LABEL}: disabled"
    if lookup(view.get("Namespace", namespace), ("metadata", "labels", DRA_LABEL)) == "enabled":
        return "let the pod be converted to DRA; gpu-admission review shows what prevents it"
    return f'label the namespace "{namespace}" {DRA_LABEL}: enabled, so that its pods are converted to DRA'


def _provided_resources(view: ClusterView) -> frozenset[str] | Unknown:
    """The extended resources that DeviceClasses provide; unknown while DeviceClasses are."""
    classes = view.list("DeviceClass")
    return UNKNOWN if classes is UNKNOWN else frozenset(filter(None, map(extended_resource_name, classes)))


def _dra_devices(resource: str, nodes: GPUNodes, view: ClusterView) -> str:
    """Text on devices that could serve a request: `8 NVIDIA-H200 and 2 NVIDIA-L4`; empty if none.

    If nodes run the device plugin, only devices of the resource's own kind count; otherwise all GPUs do.
    """
    groups = gpu_groups(view)
    parsed = parse_resource(resource)
    has_device_plugin = any(map(is_device_plugin_name, nodes.offers))
    counts: Counter[str] = Counter()
    for group in () if groups is UNKNOWN else groups:
        if group.type in ("gpu", "mig") and (not has_device_plugin or _serves(group, parsed)):
            counts[group.product] += len(group.devices)
    most_first = sorted(counts, key=lambda product: (-counts[product], product))
    return format_list([f"{counts[product]:,} {printable(product)}" for product in most_first]) if counts else ""


def _serves(group: DeviceGroup, resource: GPUResource | None) -> bool:
    if resource is None or (resource.shared and not group.is_shareable):
        return False
    if not resource.mig:
        return group.type == "gpu"
    return resource.profile is not None and group.first.attributes.get(_PROFILE) == str(resource.profile)
