"""The hardware of a node, how MIG cuts it, and how its GPUs are configured and handed out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from policies.devices.device_sharing import SharingMode, sharing_of
from policies.fleet.offers.shown import (
    ENGINE_LABELS,
    MIG_PREFIX,
    LabelledResource,
    labelled_devices,
    labelled_number,
    parse_number,
)
from policies.kubernetes.nodes import allocatable, labels_of
from policies.kubernetes.objects import lookup, mapping_at, mappings_at
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.resourceslices import devices_in
from policies.nvidia.identifiers import (
    CLIQUE_LABEL,
    COMPUTE_LABELS,
    COUNT_LABEL,
    DRIVER,
    FAMILY_LABEL,
    GPU_RESOURCE,
    MEMORY_LABEL,
    MIG_STRATEGY_LABEL,
    PRODUCT_LABEL,
)
from policies.nvidia.mig import Geometry, MIGProfile, parse_resource
from policies.nvidia.mig_layouts import fewest_gpus
from policies.nvidia.mig_products import Engines, MIGSize, is_lacking, mig_size, node_product, product_named
from policies.nvidia.plugin_configs import PluginConfig

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.mig_products import MIGProduct


_FIXED = re.compile(
    r"nvidia\.com/(gpu\.(family|compute\.(major|minor)|machine|mode|clique)|mig\.capable|"
    r"cuda\.(driver|runtime)(-version)?\..+|vgpu\..+|gfd\.timestamp)"
)
"""Labels of GPU Feature Discovery that follow from GPUs and driver alone."""
_OF_MACHINES = ("nvidia.com/gfd.timestamp", "nvidia.com/gpu.machine", CLIQUE_LABEL)
"""Those of which the DRA driver publishes nothing."""
ENGINE_CAPACITIES = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")
"""The capacities of a published MIG device, in the order of `Engines`."""
_NUMBER = re.compile(r"gpu-(\d{1,3})(-mig-.*)?")
_HOPPER = 9
"""The compute capability from which on a GPU turns MIG on and off without a reset."""
_MEBIBYTE = 2**20
_MOST_GPUS = 256
"""Labels that say more are wrong; the largest nodes that are sold have 16."""
NOTHING_MEASURED: Mapping[str, Mapping[MIGProfile, MIGSize]] = {}


@dataclass(frozen=True, slots=True)
class Cut:
    """The cut of a node's GPUs by MIG."""

    whole: int
    """GPUs with MIG off."""
    devices: Mapping[MIGProfile, int] = field(default_factory=dict)
    """MIG devices by profile, on all GPUs together."""
    by_gpu: tuple[Mapping[MIGProfile, int] | None, ...] = ()
    """The MIG devices of each GPU, None where MIG is off; empty if it is not known GPU by GPU."""

    @classmethod
    def of(cls, by_gpu: Iterable[Mapping[MIGProfile, int] | None]) -> Cut:
        """The cut of GPUs whose MIG devices are known one by one; None for a GPU with MIG off."""
        gpus = tuple(by_gpu)
        devices: Counter[MIGProfile] = Counter()
        for gpu in gpus:
            devices.update(gpu or {})
        return cls(sum(gpu is None for gpu in gpus), dict(devices), gpus)

    def first_empty_gpu(self, gpus: int) -> int | None:
        """The number of the first of so many GPUs that has MIG on and no devices; None if there is none.

        As far as it is known: without `by_gpu`, only if no GPU has a MIG device.
        """
        if self.by_gpu:
            return next((number for number, gpu in enumerate(self.by_gpu) if gpu is not None and not gpu), None)
        return self.whole if self.whole < gpus and not self.devices else None

    def after_reload(self, gpus: int, *, turns_freely: bool) -> Cut:
        """The cut of so many GPUs after their driver was loaded anew, if nothing cuts them again.

        MIG devices do not survive. GPUs before Hopper keep MIG on; newer ones, which turn it on and off freely, have it off.

        Source: NVIDIA MIG user guide, "Enable MIG Mode" and "Getting Started with MIG".
        """
        is_on = [gpu is not None for gpu in self.by_gpu] or [number >= self.whole for number in range(gpus)]
        return Cut.of({} if each and not turns_freely else None for each in is_on)

    def has_mig(self, gpus: int) -> bool:
        """True if MIG is on on one of so many GPUs."""
        return bool(self.devices) or self.whole < gpus


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of a node, whatever their configuration."""

    product: str
    """As labels spell it, without suffixes: `NVIDIA-A100-SXM4-80GB`; empty if it is unknown."""
    gpus: int
    memory: int | None
    """Of one whole GPU in MiB; None if it is unknown."""
    mig: MIGProduct | None
    """None if MIG cannot cut it, or the product is unknown."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of GPU Feature Discovery that no configuration changes: versions, family, machine."""
    sizes: Mapping[MIGProfile, MIGSize] = field(default_factory=dict)
    """Sizes of MIG devices that were measured on such GPUs."""
    devices: Mapping[int, tuple[Object, ...]] = field(default_factory=dict)
    """The devices that the DRA driver publishes of each GPU, by its number."""
    others: tuple[Object, ...] = ()
    """Its other devices: functions of GPUs for virtual machines."""

    @property
    def key(self) -> Hashable:
        """A key of what the driver publishes of GPUs of which no device is published yet."""
        labels = [(name, value) for name, value in sorted(self.labels.items()) if name not in _OF_MACHINES]
        return self.product, self.gpus, self.memory, self.mig, tuple(labels), str(sorted(self.sizes.items()))

    @property
    def turns_mig_freely(self) -> bool:
        """True if its GPUs turn MIG on and off without a reset, as from Hopper on."""
        major = self.labels.get(COMPUTE_LABELS[0], "")
        return major.isdecimal() and int(major) >= _HOPPER

    def size(self, profile: MIGProfile) -> MIGSize:
        """The size of a MIG device: as measured, else by what is known of the product."""
        known = mig_size(self.product, self.mig, profile, self.memory)
        measured = self.sizes.get(profile)
        if measured is None:
            return known
        return measured._replace(engines=known.engines) if measured.engines == Engines() else measured

    def with_memory(self, sizes: Mapping[MIGProfile, int]) -> Hardware:
        """The same GPUs, with another memory of some MIG devices in MiB, as if it was measured."""
        found = {profile: self.size(profile)._replace(memory=memory, bounds=None) for profile, memory in sizes.items()}
        return replace(self, sizes={**self.sizes, **found})


def read_hardware(
    node: Object,
    devices: Sequence[Object] = (),
    measured: Mapping[str, Mapping[MIGProfile, MIGSize]] = NOTHING_MEASURED,
) -> tuple[Hardware, Cut] | None:
    """The GPUs of a node and how they are cut; None if their number or their cut is unknown.

    Args:
        node: The node.
        devices: The devices that the DRA driver publishes on it.
        measured: Sizes of MIG devices by product that other nodes show.
    """
    labels = labels_of(node)
    by_number: dict[int, list[Object]] = {}
    others = []
    for device in devices:
        number = gpu_number(device)
        if number is None:
            others.append(device)
        else:
            by_number.setdefault(number, []).append(device)
    of_labels = _by_labels(node, labels)
    published_cut = _published_cut(by_number)
    label = LabelledResource(GPU_RESOURCE, labels).product
    mig = node_product(labels)
    if of_labels is not None:
        gpus, memory, cut = of_labels
        if published_cut is not None and (len(published_cut.by_gpu) == gpus or label.profile is not None):
            gpus, cut = len(published_cut.by_gpu), published_cut
    elif (published_cut := published_cut or _divisible_cut(by_number)) is not None:
        gpus, memory, cut = len(published_cut.by_gpu), None, published_cut
        mig = mig or product_named(_product_label(next(iter(by_number.values()))[0]))
    else:
        return None
    shown = [device for each in by_number.values() for device in each]
    product = label.name or (_product_label(shown[0]) if shown else "")
    if memory is None:
        memory = next((size for device in shown if not _text(device, "profile") and (size := _memory_of(device))), None)
    if memory is None and mig is not None and (label.profile is not None or label.invalid):
        memory = mig.memory[0] * 1024
    fixed = {name: value for name, value in labels.items() if is_label_of_hardware(name)}
    if shown:
        fixed = _published_facts(shown[0]) | fixed
    sizes = {**measured.get(product, {}), **_labelled_sizes(labels), **_published_sizes(shown)}
    published = {number: tuple(each) for number, each in by_number.items()}
    return Hardware(product, gpus, memory, mig, fixed, sizes, published, tuple(others)), cut


def measured_sizes(view: ClusterView) -> Mapping[str, Mapping[MIGProfile, MIGSize]]:
    """The sizes of MIG devices that a cluster shows, by product; call it by `view.derive`."""
    found: dict[str, dict[MIGProfile, MIGSize]] = {}
    for node in view.known_objects("Node"):
        labels = labels_of(node)
        if sizes := _labelled_sizes(labels):
            found.setdefault(LabelledResource(GPU_RESOURCE, labels).product.name, {}).update(sizes)
    for document in view.known_objects("ResourceSlice"):
        if lookup(document, ("spec", "driver")) == DRIVER:
            for device in mappings_at(document, ("spec", "devices")):
                if sizes := _published_sizes([device]):
                    found.setdefault(_product_label(device), {}).update(sizes)
    return found


def is_label_of_hardware(name: str) -> bool:
    """True for a label of GPU Feature Discovery that follows from GPUs and driver alone."""
    return _FIXED.fullmatch(name) is not None


def gpu_number(device: Object) -> int | None:
    """The number of the GPU that a published device is, or is a part of; None if its name does not tell."""
    match = _NUMBER.fullmatch(str(device.get("name")))
    return int(match[1]) if match else None


def has_several_models(node: Object) -> bool:
    """True if a node shows more GPUs than its labels count, or MIG devices that those GPUs do not have.

    The labels describe one of the models then, and which one is left to chance.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm/mig-strategy.go newGPULabelers.
    """
    labels = labels_of(node)
    shown = LabelledResource(GPU_RESOURCE, labels)
    if shown.product.profile is not None or shown.product.invalid:
        return False
    offered = _offered_amount(node, GPU_RESOURCE) // (shown.replicas or 1)
    is_exceeded = shown.device_count is not None and offered > shown.device_count
    return is_exceeded or any(is_lacking(str(each), labels) for each in _offered_devices(node))


def gpu_labels(node: Object) -> Mapping[str, str]:
    """The labels of a node, without what they say about its GPUs if these are of several models."""
    labels = labels_of(node)
    if not has_several_models(node):
        return labels
    return {name: value for name, value in labels.items() if name not in (PRODUCT_LABEL, COUNT_LABEL, MEMORY_LABEL)}


def _by_labels(node: Object, labels: Mapping[str, str]) -> tuple[int, int | None, Cut] | None:
    """Number, memory and cut of the GPUs by labels, else by resources; None if unknown."""
    shown = LabelledResource(GPU_RESOURCE, labels)
    label, count, replicas, memory = shown.product, shown.device_count, shown.replicas, shown.memory
    mig, offered = node_product(labels), _offered_amount(node, GPU_RESOURCE) // (replicas or 1)
    if label.invalid or (count or 0) > _MOST_GPUS or has_several_models(node):
        return None
    if label.profile is not None:
        # Under the single strategy, the labels are those of the MIG devices.
        match = mig.match(label.profile) if mig is not None else None
        found = min(offered, _MOST_GPUS) if count is None else count
        if match is None or not found:
            return None
        gpus = max(1, found // match.most)
        is_full = gpus * match.most == found
        return gpus, None, Cut.of([{label.profile: match.most}] * gpus) if is_full else Cut(0, {label.profile: found})
    devices = labelled_devices(labels) or _offered_devices(node)
    if devices:
        if count is None:
            geometry = Geometry(mig.memory[0], mig.layout) if mig is not None else None
            names = {match.profile: each for each in devices if mig is not None and (match := mig.match(each))}
            counts = {name: devices[each] for name, each in names.items()}
            count = offered + ((geometry is not None and fewest_gpus(geometry, counts)) or sum(devices.values()))
        return (count, memory, Cut(min(count, offered), devices)) if count <= _MOST_GPUS else None
    if count is None:
        gpus = min(offered, _MOST_GPUS)
        return (gpus, memory, Cut.of([None] * gpus)) if gpus else None
    if replicas == 0:
        # MIG is on on every GPU. Only the mixed strategy would count its devices.
        is_empty = labels.get(MIG_STRATEGY_LABEL) == "mixed"
        return count, memory, Cut.of([{}] * count) if is_empty else Cut(0)
    return count, memory, Cut.of([None] * count)


def _offered_amount(node: Object, resource: str) -> int:
    """The amount of a resource that a node offers; 0 if it is not an amount."""
    return int(quantity_or_none(allocatable(node, resource)) or 0)


def _offered_devices(node: Object) -> dict[MIGProfile, int]:
    """The MIG devices that a node offers by profile, without shared ones."""
    names = mapping_at(node, ("status", "allocatable"))
    found = {}
    for name in names:
        parsed = parse_resource(name)
        if (
            parsed is not None
            and parsed.profile is not None
            and not parsed.shared
            and (count := _offered_amount(node, name))
        ):
            found[parsed.profile] = count
    return found


def _published_cut(by_number: Mapping[int, Sequence[Object]]) -> Cut | None:
    """The cut that published devices show; None if they are partitions that are made on demand, or none."""
    if not by_number or any("consumesCounters" in device for each in by_number.values() for device in each):
        return None
    gpus: list[dict[MIGProfile, int] | None] = []
    for number in range(max(by_number) + 1):
        devices = by_number.get(number, ())
        profiles = [profile_of(device) for device in devices]
        if any(profile is None and _text(device, "profile") for profile, device in zip(profiles, devices, strict=True)):
            return None
        counts = dict(Counter(profile for profile in profiles if profile is not None))
        gpus.append(None if devices and not counts else counts)
    return Cut.of(gpus)


def _divisible_cut(by_number: Mapping[int, Sequence[Object]]) -> Cut | None:
    """The cut of GPUs whose partitions are made on demand (DynamicMIG); None without devices.

    The driver publishes a GPU whole beside its partitions unless MIG is on and stays on.
    """
    if not by_number or any(number not in by_number for number in range(max(by_number))):
        return None
    is_whole = [any(not _text(each, "profile") for each in by_number[number]) for number in sorted(by_number)]
    return Cut.of(None if each else {} for each in is_whole)


def _published_facts(device: Object) -> dict[str, str]:
    """The labels of GPU Feature Discovery that follow from the attributes of a published device."""
    found = {}
    if family := _text(device, "architecture"):
        found[FAMILY_LABEL] = family.lower().replace(" ", "-")
    version = str(lookup(device, ("attributes", "cudaComputeCapability", "version")) or "").split(".")
    if len(version) > 1:
        found |= dict(zip(COMPUTE_LABELS, version[:2], strict=True))
    return found


def _labelled_sizes(labels: Mapping[str, str]) -> dict[MIGProfile, MIGSize]:
    """The sizes of MIG devices that the labels of GPU Feature Discovery say."""
    profile = LabelledResource(GPU_RESOURCE, labels).product.profile
    resources = {} if profile is None else {profile: GPU_RESOURCE}
    resources |= {each: f"{MIG_PREFIX}{each.label}" for each in labelled_devices(labels)}
    found = {}
    for each, resource in resources.items():
        memory = LabelledResource(resource, labels).memory
        if memory is not None:
            numbers = [labelled_number(labels, f"{resource}.{name}") for name in ENGINE_LABELS]
            found[each] = MIGSize(memory, Engines(*numbers))
    return found


def _published_sizes(devices: Iterable[Object]) -> dict[MIGProfile, MIGSize]:
    return {
        profile: size
        for device in devices
        if (profile := profile_of(device)) is not None and (size := _published_size(device)) is not None
    }


def _published_size(device: Object) -> MIGSize | None:
    """The size that a published MIG device shows; None for a whole GPU, or without memory."""
    memory = _memory_of(device)
    if memory is None or not _text(device, "profile"):
        return None
    numbers = [parse_number(str(lookup(device, ("capacity", name, "value")))) for name in ENGINE_CAPACITIES]
    return MIGSize(memory, Engines(*numbers))


def _memory_of(device: Object) -> int | None:
    """The memory of a published device in MiB; None if it is missing."""
    memory = quantity_or_none(mapping_at(device, ("capacity", "memory")).get("value"))
    return None if memory is None else int(memory) // _MEBIBYTE


def profile_of(device: Object) -> MIGProfile | None:
    """The profile of a published MIG device; None for a whole GPU, or if it cannot be read."""
    return MIGProfile.parse(_text(device, "profile"))


def _product_label(device: Object) -> str:
    """The product of a published device as labels spell it.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go sanitise.
    """
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", _text(device, "productName")).split())


def _text(device: Object, attribute: str) -> str:
    found: Any = lookup(device, ("attributes", attribute, "string"))
    return found if isinstance(found, str) else ""


NUMA_NODE = "resource.kubernetes.io/numaNode"


NO_CONFIG = PluginConfig(None)
"""A document that shares nothing."""


@dataclass(frozen=True, slots=True)
class DriverState:
    """The configuration of NVIDIA's DRA driver."""

    gates: frozenset[str] = frozenset()
    """The feature gates that are on: `DynamicMIG`, `ConsumableShares`."""
    shares: str = ""
    """`consumableShares`: a number, `memory` or `unlimited`; empty for whole devices."""
    is_combined: bool = False
    """True if counters and devices share slices, as Kubernetes 1.34 requires."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The configuration of a node's GPUs."""

    cut: Cut
    strategy: str = "none"
    """The MIG strategy: `none`, `single` or `mixed`."""
    config: PluginConfig = NO_CONFIG
    """The document that the device plugin and GPU Feature Discovery read."""
    has_plugin: bool = True
    """True if NVIDIA's device plugin runs on the node."""
    driver: DriverState | None = None
    """NVIDIA's DRA driver; None if it does not run on the node."""


def shown_driver(slices: Sequence[Object]) -> DriverState | None:
    """The driver that publishes the slices of a node, as far as they tell; None without devices."""
    devices = [device for document in slices for device in mappings_at(document, ("spec", "devices"))]
    if not devices:
        return None
    is_combined = any(
        lookup(document, ("spec", "sharedCounters")) and lookup(document, ("spec", "devices")) for document in slices
    )
    gates = set()
    if any("consumesCounters" in device for device in devices):
        gates.add("DynamicMIG")
    if any("ints" in mapping_at(device, ("attributes", NUMA_NODE)) for device in devices):
        gates.add("DRAListTypeAttributes")
    if any(lookup(device, ("attributes", "type", "string")) == "vfio" for device in devices):
        gates.add("PassthroughSupport")
    published = (sharing_of(device) for document in slices for device in devices_in(document))
    sharing = next((each for each in published if each.mode is not SharingMode.NONE), None)
    if sharing is None:
        return DriverState(frozenset(gates), is_combined=is_combined)
    shares = str(sharing.shares) if sharing.mode is SharingMode.SHARES else str(sharing.mode)
    return DriverState(frozenset({*gates, "ConsumableShares"}), shares, is_combined)


def config_by_labels(labels: Mapping[str, str]) -> PluginConfig:
    """A document that shares GPUs as the labels of a node say."""
    shown = LabelledResource(GPU_RESOURCE, labels)
    kind = {"time-slicing": "timeSlicing", "mps": "mps"}.get(shown.strategy)
    if kind is None or shown.replicas is None:
        return NO_CONFIG
    shared = {"renameByDefault": not shown.product.shared, "failRequestsGreaterThanOne": False}
    resources = [{"name": GPU_RESOURCE, "replicas": shown.replicas}]
    return PluginConfig({"sharing": {kind: {**shared, "resources": resources}}})


def estimated_sizes(hardware: Hardware, state: NodeState) -> Mapping[MIGProfile, MIGSize]:
    """The MIG devices of a state whose memory is estimated, because no GPU shows it.

    With DynamicMIG that can be every partition of a GPU.
    """
    profiles = set(state.cut.devices)
    is_dynamic = state.driver is not None and "DynamicMIG" in state.driver.gates
    if is_dynamic and hardware.mig is not None and (hardware.turns_mig_freely or state.cut.has_mig(hardware.gpus)):
        profiles |= {match.profile for match in hardware.mig.geometries[0].matches}
    sizes = {profile: hardware.size(profile) for profile in sorted(profiles)}
    return {profile: size for profile, size in sizes.items() if size.bounds is not None}


def possible_hardware(hardware: Hardware, sizes: Mapping[MIGProfile, MIGSize]) -> tuple[Hardware, ...]:
    """The hardware with the least, and with the most memory that is possible; nothing without estimates."""
    ends = ({profile: size.bounds[end] for profile, size in sizes.items() if size.bounds} for end in (0, 1))
    return tuple(hardware.with_memory(memory) for memory in ends) if sizes else ()
