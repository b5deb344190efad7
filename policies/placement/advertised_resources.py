"""Extended resources that a pod requests: correct names, and findings for those that nothing provides."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from policies.devices.deviceclasses import class_meant, class_remedy, extended_resource_name
from policies.devices.published_devices import gpu_groups
from policies.fleet.device_plugin import WORKLOAD_CONFIG
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import has_nvidia_class_name
from policies.fleet.offers.shown import sharing_strategy
from policies.kubernetes.names import DRA_LABEL, closest, format_count, format_list, is_label_key, printable
from policies.kubernetes.neighbours import RESOURCES_OF_NEIGHBOURS
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import DRIVER, GPU_RESOURCE, PRODUCT_LABEL, VENDOR_PREFIX
from policies.nvidia.mig import IMPLICIT_PREFIX, PASSED_THROUGH, correct_name, is_device_plugin_name, parse_resource
from policies.nvidia.products import Product
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.devices.published_devices import DeviceGroup
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.nvidia.mig import GPUResource, MIGProfile


def nearest_name(resource: str, known: Iterable[str]) -> str | None:
    """The known resource with the most similar name; the common prefix is not compared."""
    guess = closest(resource.removeprefix(VENDOR_PREFIX), [name.removeprefix(VENDOR_PREFIX) for name in known])
    return VENDOR_PREFIX + guess if guess else None


def nearest_profile(wanted: MIGProfile, known: Iterable[MIGProfile]) -> MIGProfile | None:
    """The known profile that is most similar to the wanted one: with as many slices or as much memory."""
    like = [
        profile for profile in known if wanted.gpu_slices == profile.gpu_slices or wanted.memory_gb == profile.memory_gb
    ]

    def difference(profile: MIGProfile) -> tuple[bool, bool, bool, int, MIGProfile]:
        return (
            wanted.gpu_slices != profile.gpu_slices,
            wanted.attributes != profile.attributes,
            wanted.compute_slices != profile.compute_slices,
            abs(wanted.memory_gb - profile.memory_gb),
            profile,
        )

    return min(like, key=difference, default=None)


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


_SHARED_GPU = "nvidia.com/gpu.shared"

Alternative = tuple[str, str | None]
"""A clause on existing resources, and a remedy; None if the rule's own remedy is the best one."""


def alternative_to(resource: str, nodes: GPUNodes) -> Alternative:
    """The resources that nodes offer instead of one that none offers, and a remedy."""
    correct = correct_name(resource)
    if not nodes.offers:
        exists, remedy = _without_offers(nodes)
        return exists, f'write "{correct}"' if correct else remedy
    if resource in PASSED_THROUGH:
        remedy = (
            f"wait for a node with {WORKLOAD_CONFIG}: vm-passthrough, where NVIDIA's Kata device plugin hands it out"
        )
        return _offers_text(nodes), remedy
    if correct in nodes.offers:
        return _offers_text(nodes), f'write "{correct}"'
    parsed = parse_resource(correct or resource)
    if parsed is None:
        guess = nearest_name(resource, nodes.offers)
        return _offers_text(nodes), f'write "{guess}"' if guess else None
    if parsed.shared and (answer := _shares_under_own_name(parsed.name.removesuffix(".shared"), nodes)):
        return answer
    if parsed.profile:
        return _alternative_to_profile(parsed.profile, nodes)
    return _offers_text(nodes), None if parsed.mig else _remedy_without_gpus(nodes)


def _without_offers(nodes: GPUNodes) -> Alternative:
    """The reason why no node offers GPUs.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm/mig-strategy.go newInvalidMigStrategyLabeler.
    """
    if not nodes.nodes:
        count = nodes.others
        return "the only node has no GPU" if count == 1 else f"none of the {count:,} nodes has a GPU", None
    count = len(nodes.nodes)
    has = "1 node has GPUs by its labels" if count == 1 else f"{count:,} nodes have GPUs by their labels"
    invalid = sum(Product.parse(node.labels.get(PRODUCT_LABEL, "")).invalid for node in nodes.nodes)
    if invalid:
        said = f"{has}; mig.strategy single does not allow the MIG devices of {format_count(invalid, 'node')} "
        said += f"({PRODUCT_LABEL} ends with -MIG-INVALID), so the device plugin exits there"
        return said, "let an administrator set mig.strategy: mixed, or select a MIG configuration with one profile"
    return f"{has}, and nothing advertises them", "check whether NVIDIA's device plugin runs there"


def _shares_under_own_name(base: str, nodes: GPUNodes) -> Alternative | None:
    """The offers under the name without `.shared`; None if no node offers it.

    Shares keep the resource's own name unless the device plugin is configured to rename them.
    """
    offering = [node for node in nodes.nodes if base in node.offers]
    sharing = [node for node in offering if sharing_strategy(node.labels, base)]
    if sharing:
        verb = "shares its GPUs and hands" if len(sharing) == 1 else "share their GPUs and hand"
        said = f"{format_count(len(sharing), 'node')} {verb} the shares out as {base}, for lack of renameByDefault"
        return said, f'write "{base}" and the annotation gpu-admission.io/sharing: shared'
    return (f"{_offers_text(nodes)}, and no node shares it", f'write "{base}"') if offering else None


def _alternative_to_profile(profile: MIGProfile, nodes: GPUNodes) -> Alternative:
    """The MIG devices that nodes have instead of those of a profile, and what to write."""
    handed_out = nodes.handing_out_gpus
    labels = {label: count for label, count in handed_out.items() if Product.parse(label).profile == profile}
    if labels:
        count = sum(labels.values())
        label = min(labels, key=lambda label: (-labels[label], label))
        said = (
            f"{format_count(count, 'node')} {'hands' if count == 1 else 'hand'} out {profile} devices as {GPU_RESOURCE}"
        )
        return (
            f"{said}, by the MIG strategy single",
            f'write "{GPU_RESOURCE}" and the nodeSelector {PRODUCT_LABEL}: {label}',
        )
    offered = {parsed.profile: parsed.name for parsed in _mig_offers(nodes) if parsed.profile}
    nearest = nearest_profile(profile, offered)
    if nearest:
        return _offers_text(
            nodes
        ), f'write "{offered[nearest]}" if that MIG device will do, or wait for a node with this one'
    if not offered and any(Product.parse(label).profile is None for label in handed_out):
        return _offers_text(nodes), f'write "{GPU_RESOURCE}" for a whole GPU, or wait for a node with such MIG devices'
    return _offers_text(nodes), None


def _remedy_without_gpus(nodes: GPUNodes) -> str | None:
    """The remedy if no node offers whole GPUs; None if no node offers parts of them."""
    if _SHARED_GPU in nodes.offers:
        return f'write "{_SHARED_GPU}" if a share will do, or wait for a node with whole GPUs'
    profiles = {parsed.profile: parsed.name for parsed in _mig_offers(nodes) if parsed.profile}
    return f'write "{profiles[max(profiles)]}" if a MIG device will do, or wait for whole GPUs' if profiles else None


def _mig_offers(nodes: GPUNodes) -> list[GPUResource]:
    """The MIG devices that nodes offer; of one profile, shares come before whole devices."""
    offers = (parse_resource(name) for name in sorted(nodes.offers, reverse=True))
    return [parsed for parsed in offers if parsed and parsed.mig]


def _offers_text(nodes: GPUNodes) -> str:
    """`there is nvidia.com/gpu (MIG 1g.10gb) on 12 nodes and nvidia.com/mig-3g.40gb on 1 node`."""
    profiles = {Product.parse(label).profile for label in nodes.handing_out_gpus}
    mig_profiles = format_list([f"MIG {profile}" for profile in sorted(filter(None, profiles))])
    means = {GPU_RESOURCE: f" ({mig_profiles})"} if profiles and None not in profiles else {}
    most_first = sorted(nodes.offers, key=lambda name: (-nodes.offers[name], name))
    return "there is " + format_list(
        [f"{printable(name)}{means.get(name, '')} on {format_count(nodes.offers[name], 'node')}" for name in most_first]
    )


_PROFILE = f"{DRIVER}/profile"


@PODS.rule(
    "GA413",
    "A node must advertise the resource that a pod requests",
    default=Severity.WARN,
    remedy="request a resource that exists, or wait for a node that advertises this one",
    source="status.allocatable of the nodes; github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go AddDefaultResourcesToConfig, "
    "api/config/v1/resources.go NewResourceName",
)
def advertised_resources(
    pod: Pod, requests: Iterable[ResourceRequest], namespace: str, view: ClusterView
) -> Iterator[Problem]:
    """A pod that requests a resource that no node has stays Pending.

    The scheduler reports only that the resource is insufficient. This can be temporary: an autoscaled cluster may
    add such a node when the first pod requests it. More often the name is wrong for this cluster: MIG profiles, MIG
    strategies, sharing and DRA each change the names of GPU resources.
    """
    # While nodes are unknown, or the cluster has none, only certain misspellings are reported.
    for request in requests:
        if request.resource.startswith(IMPLICIT_PREFIX):
            yield from _missing_class(request, view)
        elif request.resource not in RESOURCES_OF_NEIGHBOURS:
            yield from _unadvertised_resource(request, pod, namespace, view)


def _missing_class(request: ResourceRequest, view: ClusterView) -> Iterator[Problem]:
    """The problem of a DeviceClass that does not exist; none while classes are unknown."""
    classes = view.list("DeviceClass")
    wanted = request.resource.removeprefix(IMPLICIT_PREFIX)
    names = [] if classes is UNKNOWN else [name for name in map(name_of, classes) if name]
    if classes is UNKNOWN or wanted in names:
        return
    guess = class_meant(wanted, names)
    if has_nvidia_class_name(wanted) or (guess and has_nvidia_class_name(guess)):
        text = f'there is no DeviceClass "{printable(wanted)}", so the pod would stay Pending'
        yield Problem(request.path, text, class_remedy(wanted, names, before=IMPLICIT_PREFIX))


def _unadvertised_resource(request: ResourceRequest, pod: Pod, namespace: str, view: ClusterView) -> Iterator[Problem]:
    """The problem of a resource that no node advertises and no DeviceClass provides."""
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or not (nodes.nodes or nodes.others):
        # The API server refuses what is no label key.
        if is_label_key(request.resource) and (correct := correct_name(request.resource)):
            text = "NVIDIA's device plugin advertises no resource of this name"
            yield Problem(request.path, text, f'write "{correct}"')
        return
    provided = view.derive(_provided_resources)
    # Names outside `nvidia.com/` may be of any device plugin.
    advertised = nodes.offers if request.resource.startswith(VENDOR_PREFIX) else nodes.extended_resources
    if request.resource in advertised or (provided is not UNKNOWN and request.resource in provided):
        return
    devices = _dra_devices(request.resource, nodes, view)
    if devices:
        exists, remedy = f"DRA hands out {devices} here", _through_dra(request.resource, pod, namespace, view)
    else:
        exists, remedy = alternative_to(request.resource, nodes)
    doubt = "; DeviceClasses are unknown, so one may provide it" if provided is UNKNOWN else ""
    yield Problem(request.path, f"is advertised by no node; {exists}{doubt}", remedy)


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
