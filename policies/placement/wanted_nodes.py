"""The nodes on which a pod may run by its wish, and the GPUs that it could get there."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet import extended_requests
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import has_nvidia_class_name, known_classes
from policies.kubernetes.nodes import required_terms
from policies.kubernetes.selectors import ALWAYS, Alternatives, NodeRequirement, both
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import (
    COMPUTE_LABELS,
    CUDA_VERSION_LABEL,
    DRIVER_VERSION_LABEL,
    FAMILY_LABEL,
    GPU_RESOURCE,
    PRODUCT_LABEL,
)
from policies.nvidia.identifiers import DRIVER as DRIVER_NAME
from policies.nvidia.labels import Subject, device_predicate
from policies.nvidia.mig import IMPLICIT_PREFIX, GPUResource, parse_resource
from policies.nvidia.predicates import TRUE, attribute_of
from policies.nvidia.wishes import Wish
from policies.placement.wish_labels import PRODUCT_SUFFIX, SHARED, alternatives, label_prefix, seen_products

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from policies.devices.published_devices import DeviceGroup
    from policies.fleet.gpu_nodes import NodeTraits
    from policies.fleet.known_classes import DeviceType
    from policies.kubernetes.pods import Pod
    from policies.placement.wish_labels import SeenProducts


_WHOLE_GPU = GPUResource(GPU_RESOURCE, mig=False, profile=None, shared=False)


@dataclass(frozen=True, slots=True)
class RequestedGPU:
    """A requested resource that stands for GPUs."""

    name: str
    labels: GPUResource | None
    """The resource whose labels describe its GPUs; None if no label does."""
    devices: Subject | None
    """The devices of its DeviceClass; None if no DeviceClass hands it out."""

    def can_get(self, group: DeviceGroup) -> bool:
        """True if it stands for devices of this group."""
        if self.devices is None or group.type != self.devices.kind:
            return False
        profile = self.devices.profile
        return profile is None or attribute_of(group.first, "profile") == str(profile)


def requested_gpus(pod: Pod, view: ClusterView) -> tuple[RequestedGPU, ...]:
    """The GPU resources that a pod requests, in the order of its containers, each once.

    A resource counts if it is one of the device plugin, if it stands for devices of one type, or if it names a class that
    is named like NVIDIA's and does not select devices of another driver only.
    """
    types = {
        request.name: device_type(request.name, view)
        for request in extended_requests(pod.document, view)
        if not request.is_unlisted
    }
    return tuple(
        _requested_gpu(name, found)
        for name, found in types.items()
        if found is not None
        or parse_resource(name) is not None
        or (name.startswith(IMPLICIT_PREFIX) and has_nvidia_class_name(name.removeprefix(IMPLICIT_PREFIX)))
    )


def device_type(resource: str, view: ClusterView) -> DeviceType | None:
    """The type of devices that an extended resource stands for by a DeviceClass; None if none or mixed.

    Source: KEP-5004.
    """
    classes = known_classes(view)
    types = map(classes.probable_type, classes.standing_for(resource))
    return next((each for each in types if each is not None), None)


def _requested_gpu(name: str, devices: DeviceType | None) -> RequestedGPU:
    labels = parse_resource(name) or (_WHOLE_GPU if devices == "gpu" else None)
    profile = labels.profile if labels else None
    return RequestedGPU(name, labels, Subject(devices, profile if devices == "mig" else None) if devices else None)


_NOTHING = (Wish(), Wish(sharing="any"))
"""Wishes that every GPU meets."""


@dataclass(frozen=True, slots=True)
class WantedNodes:
    """The requirements of a wish on a pod's node."""

    alternatives: Alternatives = ALWAYS
    untold: tuple[RequestedGPU, ...] = ()
    """Requested resources that neither labels nor ResourceSlices describe; the wish is not applied to them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that are named, if an alternative names nodes."""
        named = (item for branch in self.alternatives for item in branch if item.key == HOSTNAME)
        return tuple(sorted({name for item in named for name in item.values}))


def wanted_nodes(pod: Pod, requested: tuple[RequestedGPU, ...], view: ClusterView, wish: Wish) -> WantedNodes:
    """The nodes that have what a pod wishes, for every resource that it requests."""
    if replace(wish, nic=None) in _NOTHING:
        return WantedNodes()
    seen = _with_selected(seen_products(view), pod.spec)
    wanted, untold = ALWAYS, []
    for gpu in requested:
        by_label = alternatives(wish, gpu.labels, seen) if gpu.labels else ()
        by_name = named_nodes(wish, gpu, view)
        if gpu.labels or unlabelled_gpus(gpu, view):
            wanted = both(wanted, (*by_label, *by_name))
        else:
            untold.append(gpu)
    return WantedNodes(wanted, tuple(untold))


def _with_selected(seen: SeenProducts, spec: Mapping[str, Any]) -> SeenProducts:
    """The products seen, and those that the pod selects itself: it may know what comes."""
    selected: defaultdict[str, set[str]] = defaultdict(set)
    for key, value in (spec.get("nodeSelector") or {}).items():
        if key.endswith(PRODUCT_SUFFIX):
            selected[key].add(value)
    for expression in (each for term in required_terms(spec) for each in term.get("matchExpressions") or []):
        key = expression.get("key") or ""
        if expression.get("operator") == "In" and key.endswith(PRODUCT_SUFFIX):
            selected[key].update(expression.get("values") or [])
    return {**seen, **{key: seen.get(key, frozenset()).union(values) for key, values in selected.items()}}


HOSTNAME = "kubernetes.io/hostname"
MOST_NAMES = 500
"""Maximum nodes that a pod is tied to; each is stored with every pod."""


@dataclass(frozen=True, slots=True)
class UnlabelledGPUs:
    """Equal devices on nodes without labels for them."""

    group: DeviceGroup
    hostnames: frozenset[str]
    """The label `kubernetes.io/hostname` of these nodes; those without it are left out."""


def named_nodes(wish: Wish, requested: RequestedGPU, view: ClusterView) -> Alternatives:
    """The nodes without labels whose devices all meet the wish; `()`, which no node meets, if none do.

    A resource gets any device that its DeviceClass selects, so one other device excludes its node. If all existing devices
    meet a wish about sharing, later nodes are expected to meet it too.
    """
    gpus = unlabelled_gpus(requested, view)
    right = frozenset().union(*(each.hostnames for each in gpus if is_as_wished(each.group, wish, requested)))
    wrong = frozenset().union(*(each.hostnames for each in gpus if not is_as_wished(each.group, wish, requested)))
    names = sorted(right - wrong)
    if not names:
        return ()
    devices = requested.devices
    if not wrong and devices is not None and device_predicate(wish, devices) == TRUE:  # the wish is about sharing only
        return ((NodeRequirement(PRODUCT_LABEL, "DoesNotExist"),),) if requested.labels else ALWAYS
    return ((NodeRequirement(HOSTNAME, "In", tuple(names[:MOST_NAMES])),),)


def unlabelled_gpus(requested: RequestedGPU, view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    """Devices without labels that a resource can stand for; empty while nodes or slices are unknown.

    Those of a resource that has labels are on nodes that GFD does not label, those of any other on every node.
    """
    gpus = view.derive(_gpus_without_gfd if requested.labels else _gpus)
    return tuple(each for each in gpus if requested.can_get(each.group))


def is_as_wished(group: DeviceGroup, wish: Wish, requested: RequestedGPU) -> bool:
    """True if devices meet a wish; devices that several claims can hold are shared."""
    if wish.sharing in ("exclusive", "shared") and group.is_shareable != (wish.sharing == "shared"):
        return False
    return requested.devices is not None and device_predicate(wish, requested.devices).matches(group.first)


def _gpus(view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    return _published_gpus(view, only_without_gfd=False)


def _gpus_without_gfd(view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    return _published_gpus(view, only_without_gfd=True)


def _published_gpus(view: ClusterView, *, only_without_gfd: bool) -> tuple[UnlabelledGPUs, ...]:
    nodes, groups = gpu_nodes(view), gpu_groups(view)
    if nodes is UNKNOWN or groups is UNKNOWN:
        return ()
    hostnames = {
        node.name: node.labels[HOSTNAME]
        for node in nodes.all
        if HOSTNAME in node.labels and not (only_without_gfd and PRODUCT_LABEL in node.labels)
    }
    gpus = (
        UnlabelledGPUs(group, frozenset(hostnames[node] for node in group.by_node if node in hostnames))
        for group in groups
    )
    return tuple(each for each in gpus if each.hostnames)


_NO_TYPES = frozenset[str]()


class GPUKind(NamedTuple):
    """Nodes with GPUs that have the same traits and the same types of published devices."""

    traits: NodeTraits
    types: frozenset[str]
    """The types of the devices that NVIDIA's GPU driver publishes for them."""
    nodes: int

    def offers(self, requested: RequestedGPU) -> bool:
        """True if the nodes could give a pod the requested resource."""
        if requested.name in self.traits.offers:
            return True
        is_published = requested.devices is not None and requested.devices.kind in self.types
        return is_published and PRODUCT_LABEL in self.traits.label_values


def gpu_kinds(view: ClusterView) -> tuple[GPUKind, ...] | Unknown:
    """The kinds of GPU nodes of a cluster. Use it by `view.derive(gpu_kinds)`."""
    nodes, devices = gpu_nodes(view), view.derive(published_devices)
    if nodes is UNKNOWN:
        return UNKNOWN
    types = {} if devices is UNKNOWN else devices.types_by_node
    counts = Counter((id(node.traits), types.get(node.name, _NO_TYPES)) for node in nodes.nodes)
    return tuple(GPUKind(nodes.traits_by_identity[key], found, count) for (key, found), count in counts.items())


_MEBI = 1024**2


@dataclass(frozen=True, slots=True)
class ExistingGPU:
    """GPUs of one kind."""

    product: str
    """As labels spell it, without `-SHARED`; empty if unknown."""
    nodes: int
    """The number of nodes with such a GPU."""
    memory: str
    """`81559Mi`; empty if unknown, as all other fields."""
    family: str
    compute_capability: str
    driver: str
    cuda: str
    sharing: str
    """`none`, `mps` or `time-slicing`; `claims` where a DRA driver lets several claims hold a device."""
    labels: Mapping[str, str]
    """Of the nodes."""
    group: DeviceGroup | None = None
    """The devices, where they are known by ResourceSlices and not by labels."""


def existing_gpus(requested: RequestedGPU, view: ClusterView) -> list[ExistingGPU]:
    """The GPUs that a pod could get for a resource now, with any wish; none while nodes are unknown."""
    kinds = view.derive(gpu_kinds)
    if kinds is UNKNOWN:
        return []
    prefix = label_prefix(requested.labels) if requested.labels else ""
    labelled = [
        _of_labels(kind.traits.label_values, prefix, kind.nodes) for kind in kinds if prefix and kind.offers(requested)
    ]
    return [*labelled, *(_of_devices(each.group, len(each.hostnames)) for each in unlabelled_gpus(requested, view))]


def _of_labels(labels: Mapping[str, str], prefix: str, nodes: int) -> ExistingGPU:
    memory = labels.get(f"{prefix}.memory")
    return ExistingGPU(
        product=labels.get(f"{prefix}.product", "").removesuffix(SHARED),
        nodes=nodes,
        memory=f"{memory}Mi" if memory else "",
        family=labels.get(FAMILY_LABEL, ""),
        compute_capability=".".join(labels[key] for key in COMPUTE_LABELS if key in labels),
        driver=labels.get(DRIVER_VERSION_LABEL, ""),
        cuda=labels.get(CUDA_VERSION_LABEL, ""),
        sharing=labels.get(f"{prefix}.sharing-strategy", ""),
        labels=labels,
    )


def _of_devices(group: DeviceGroup, nodes: int) -> ExistingGPU:
    device = group.first
    memory = device.capacity.get(f"{DRIVER_NAME}/memory")
    return ExistingGPU(
        product=group.product.replace(" MIG ", "-MIG-"),
        nodes=nodes,
        memory="" if memory is None else f"{memory // _MEBI}Mi",
        family=str(attribute_of(device, "architecture") or "").lower().replace(" ", "-"),
        compute_capability=str(attribute_of(device, "cudaComputeCapability") or "").removesuffix(".0"),
        driver=str(attribute_of(device, "driverVersion") or ""),
        cuda=str(attribute_of(device, "cudaDriverVersion") or "").removesuffix(".0"),
        sharing="claims" if device.is_shareable else "none",
        labels={},
        group=group,
    )
