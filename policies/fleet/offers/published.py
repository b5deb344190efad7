"""The devices that NVIDIA's DRA driver publishes on a node.

A GPU that is published already gives its attributes; those of others follow from the labels of GPU Feature Discovery as
far as they tell.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu v0.5 cmd/gpu-kubelet-plugin: deviceinfo.go, mig.go,
partitions.go, nvlib.go GetPerGpuAllocatableDevices, driver.go publishResources, consumable_shares.go.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from policies.fleet.offers.hardware import ENGINE_CAPACITIES, NUMA_NODE, profile_of, shown_driver
from policies.kubernetes.objects import lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.quantities import mebibytes_text
from policies.nvidia.identifiers import (
    COMPUTE_DOMAIN_DRIVER,
    COMPUTE_LABELS,
    CUDA_VERSION_LABEL,
    DRIVER,
    DRIVER_VERSION_LABEL,
    FAMILY_LABEL,
)
from policies.nvidia.mig import Geometry, MIGProfile
from policies.nvidia.mig_layouts import TooManyWaysError, find_layouts, place, possible_places

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from policies.fleet.offers.hardware import Cut, DriverState, Hardware, NodeState
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.nvidia.mig_layouts import Placement


_ARCHITECTURES = {"ada-lovelace": "Ada Lovelace"}
"""Families of GPU Feature Discovery that the driver spells otherwise than with a capital letter."""
_COUNTERS = ("multiprocessors", "copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines")
_PROFILE_IDS = {
    7: {(1, 1, ""): 19, (1, 1, "+me"): 20, (1, 2, ""): 15, (2, 2, ""): 14, (3, 4, ""): 9, (4, 4, ""): 5, (7, 8, ""): 0},
    4: {(1, 1, ""): 14, (1, 1, "+me"): 21, (2, 2, ""): 5, (2, 2, "+me"): 6, (4, 4, ""): 0},
}
"""By the compute slices of the GPU, then those of the profile, its memory slices and attribute."""
_OF_DEVICE = ("type", "uuid", "profile", "parentUUID")
"""Attributes that other devices of the same GPU do not share."""
_OF_FABRIC = re.compile(r"gpuModuleID|partition\d+")
"""Attributes of the fabric manager, which MIG devices do not have."""
_OF_DATA_CENTRES = re.compile(r"NVIDIA-(?!GeForce|RTX|TITAN|Quadro)")
_WITH_DASHES = re.compile(r"-(?=(?:SXM\d+|PCIE)-\d+GB)|(?<=SXM\d|PCIE)-(?=\d+GB)|(?<=H20)-(?=3e)")
"""Dashes of product names that the GPU's own name has too; the others stand for spaces."""


@dataclass(frozen=True, slots=True)
class PublishedSlice:
    """A ResourceSlice of a node, without its name and pool."""

    devices: tuple[Object, ...] = ()
    counters: tuple[Object, ...] = ()
    """Its `sharedCounters`."""


def device_name(product: str) -> str:
    """The name of a product as the driver spells it: `NVIDIA H100 80GB HBM3`, `NVIDIA A100-SXM4-40GB`."""
    parts: list[str] = []
    end = 0
    for match in _WITH_DASHES.finditer(product):
        parts += [product[end : match.start()].replace("-", " "), "-"]
        end = match.end()
    return "".join((*parts, product[end:].replace("-", " ")))


def published_slices(hardware: Hardware, state: NodeState) -> tuple[PublishedSlice, ...] | str:
    """The slices of the driver, or the reason why they cannot be predicted, as a clause."""
    driver = state.driver
    if driver is None:
        return ()
    by_gpu = state.cut.by_gpu or _spread(hardware, state.cut)
    if by_gpu is None:
        return "which of its GPUs have which MIG devices is not known"
    is_dynamic = "DynamicMIG" in driver.gates
    slices: list[PublishedSlice] = []
    for number, cut in enumerate(by_gpu):
        divided = _divided_gpu(hardware, number, cut) if is_dynamic else None
        found = divided or _of_gpu(hardware, number, cut)
        if isinstance(found, str):
            return found
        devices = sorted((gated_device(each, driver) for each in found.devices), key=lambda each: str(each["name"]))
        slices.append(PublishedSlice(tuple(devices), found.counters))
    passed_through = _passed_through(hardware, driver)
    if not is_dynamic:
        every = [device for each in slices for device in each.devices]
        return (PublishedSlice((*every, *passed_through)),)
    if driver.is_combined:
        return tuple(slices)
    counters = tuple(counter for each in slices for counter in each.counters)
    return PublishedSlice(counters=counters), *(PublishedSlice(each.devices) for each in slices)


def gpu_slices(view: ClusterView) -> Mapping[str, Sequence[Object]]:
    """The slices of NVIDIA's driver for the GPUs of each node, by its name; call it by `view.derive`."""
    return _slices_of(DRIVER, view)


def domain_slices(view: ClusterView) -> Mapping[str, Sequence[Object]]:
    """The slices of NVIDIA's driver for the ComputeDomains of each node; call it by `view.derive`."""
    return _slices_of(COMPUTE_DOMAIN_DRIVER, view)


def _slices_of(driver: str, view: ClusterView) -> Mapping[str, Sequence[Object]]:
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for document in view.known_objects("ResourceSlice"):
        node = lookup(document, ("spec", "nodeName"))
        if lookup(document, ("spec", "driver")) == driver and isinstance(node, str):
            found[node].append(document)
    return found


def domain_slice(node: str, devices: Iterable[str]) -> Object:
    """The slice of a node for ComputeDomains with some of its devices, `channel-0` and `daemon-0`."""
    made = [
        {"name": each, "attributes": {"type": {"string": each.removesuffix("-0")}, "id": {"int": 0}}}
        for each in devices
    ]
    document = slice_document(f"predicted-{COMPUTE_DOMAIN_DRIVER}-{node}", node, PublishedSlice(tuple(made)))
    return {**document, "spec": {**document["spec"], "driver": COMPUTE_DOMAIN_DRIVER}}


Parts = dict["Hashable", "tuple[PublishedSlice, ...] | str"]
"""The slices of nodes that are alike, which the allocator then compares once."""


def node_slices(
    node: str, shown: Sequence[Object], hardware: Hardware, state: NodeState, made: Parts
) -> Mapping[Key, Object | None] | str:
    """The slices of a node after a change, or why they cannot be predicted, as a clause.

    Empty if the devices stay. With DynamicMIG the driver publishes the partitions that are possible, so that another cut
    changes nothing unless it turns MIG on or off on a GPU before Hopper.

    Args:
        node: The name of the node.
        shown: The slices of the node as they are.
        hardware: Its GPUs.
        state: Its state afterwards.
        made: The slices of earlier nodes; those of this one are added.
    """
    missing = next((number for number in range(hardware.gpus) if number not in hardware.devices), None)
    if missing is not None and hardware.devices:
        return f"GPU {missing} of the node is not published"
    driver = shown_driver(shown)
    if driver != state.driver:
        hardware = replace(
            hardware, devices={gpu: tuple(map(_exclusive, hardware.devices[gpu])) for gpu in hardware.devices}
        )
    key = hardware.key, state.cut.whole, str(state.cut.devices), str(state.cut.by_gpu), state.driver
    parts = made[key] if not hardware.devices and key in made else published_slices(hardware, state)
    if not hardware.devices:
        made[key] = parts
    if isinstance(parts, str):
        return parts
    names = {str(device.get("name")) for each in shown for device in mappings_at(each, ("spec", "devices"))}
    if driver == state.driver and names == {str(device["name"]) for part in parts for device in part.devices}:
        return {}
    first = name_of(shown[0]) if shown else f"predicted-{DRIVER}-{node}"
    found: dict[Key, Object | None] = {}
    for number, (old, part) in enumerate(zip_longest(shown, parts)):
        name = name_of(old) if old is not None else f"{first}-{number}" if number else first
        document = None if part is None else slice_document(name, node, part, len(parts))
        found["ResourceSlice", "", name] = document
    return found


def with_driver_version(hardware: Hardware, version: str) -> Hardware:
    """The hardware with another driver, whose version is empty if it is unknown."""
    of_driver = (DRIVER_VERSION_LABEL, CUDA_VERSION_LABEL)
    labels = {name: value for name, value in hardware.labels.items() if name not in of_driver}
    devices = {
        number: tuple(_with_version(each, version) for each in published)
        for number, published in hardware.devices.items()
    }
    return replace(hardware, labels=labels | ({DRIVER_VERSION_LABEL: version} if version else {}), devices=devices)


def _with_version(device: Object, version: str) -> Object:
    """A published device with another driver."""
    attributes = mapping_at(device, ("attributes",))
    kept = {name: value for name, value in attributes.items() if name not in ("driverVersion", "cudaDriverVersion")}
    normal = _version(version)
    return {**device, "attributes": kept | ({"driverVersion": {"version": normal}} if normal else {})}


def _exclusive(device: Object) -> Object:
    """A published device without what the driver adds to share it."""
    if "allowMultipleAllocations" not in device:
        return device
    capacity = {
        name: {"value": mapping_at(amount, ()).get("value")}
        for name, amount in mapping_at(device, ("capacity",)).items()
        if name != "shares"
    }
    kept = {name: value for name, value in device.items() if name != "allowMultipleAllocations"}
    return {**kept, "capacity": capacity}


def slice_key(document: Object) -> Key:
    """The key of a ResourceSlice."""
    return "ResourceSlice", "", name_of(document)


def slice_document(name: str, node: str, part: PublishedSlice, total: int = 1) -> Object:
    """A slice of a node as a ResourceSlice; `total` is the number of slices of its pool."""
    spec: dict[str, Any] = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": total},
        "devices": list(part.devices),
    }
    if part.counters:
        spec["sharedCounters"] = list(part.counters)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def _spread(hardware: Hardware, cut: Cut) -> tuple[Mapping[MIGProfile, int] | None, ...] | None:
    """The MIG devices of each GPU if only those of all GPUs are known; None if they have no room.

    On which GPU a device is makes no difference to a claim for one.
    """
    mig, gpus = hardware.mig, hardware.gpus - cut.whole
    if not cut.devices:
        return (*([None] * cut.whole), *([{}] * gpus))
    names = {match.profile: profile for profile in cut.devices if mig is not None and (match := mig.match(profile))}
    if mig is None or len(names) < len(cut.devices):
        return None
    counts = {name: cut.devices[profile] for name, profile in names.items()}
    try:
        layouts = find_layouts(Geometry(mig.memory[0], mig.layout), counts, gpus)
    except TooManyWaysError:
        return None
    if layouts is None:
        return None
    found = [{names[name]: count for name, count in layout.items()} for layout in layouts]
    return (*([None] * cut.whole), *found, *([{}] * (gpus - len(found))))


def _of_gpu(hardware: Hardware, number: int, cut: Mapping[MIGProfile, int] | None) -> PublishedSlice | str:
    """The devices of one GPU without DynamicMIG: the GPU, or the MIG devices that it is cut into."""
    shown = hardware.devices.get(number, ())
    counts = dict(Counter(profile for device in shown if (profile := profile_of(device)) is not None))
    if shown and (counts or None) == cut:
        return PublishedSlice(shown)
    if cut is None:
        return PublishedSlice((_whole_device(hardware, number),))
    unnamed = next((profile for profile in cut if profile.shares_gpu_instance), None)
    if unnamed is not None:
        return f"the driver does not start with compute instances such as {unnamed}"
    mig = hardware.mig
    if mig is None:
        return f"{hardware.product or 'its GPU'} is not known to be divided by MIG"
    # The geometry may give a profile another name than the driver of this node does.
    names = {match.profile: profile for profile in cut if (match := mig.match(profile))}
    wanted = {name: cut[profile] for name, profile in names.items()}
    placed = place(Geometry(mig.memory[0], mig.layout), wanted) if len(names) == len(cut) else None
    if placed is None:
        return f"GPU {number} has no room for its MIG devices, as far as is known"
    devices = [_mig_device(hardware, number, names[each.profile], each, is_made=True) for each in placed]
    return PublishedSlice(tuple(devices))


def _divided_gpu(hardware: Hardware, number: int, cut: Mapping[MIGProfile, int] | None) -> PublishedSlice | None:
    """The GPU and its possible partitions with DynamicMIG; None if the driver does not divide the GPU.

    GPUs before Hopper need a reset to turn MIG on or off, so that they are published either whole or as partitions.
    """
    mig = hardware.mig
    turns_freely = hardware.turns_mig_freely
    if mig is None or (cut is None and not turns_freely):
        return None
    geometry = Geometry(mig.memory[0], mig.layout)
    largest: dict[str, int] = {}
    devices = []
    for each in possible_places(geometry):
        device = _mig_device(hardware, number, each.profile, each, is_made=False)
        devices.append(device)
        for name, number_of in _amounts(hardware, each.profile).items():
            largest[name] = max(largest.get(name, 0), number_of)
    name = f"gpu-{number}-counter-set"
    counters = _counters(largest, range(mig.layout.memory_slices))
    if turns_freely:
        whole = _whole_device(hardware, number)
        devices.append(
            {**whole, "capacity": _capacity(largest), "consumesCounters": [{"counterSet": name, "counters": counters}]}
        )
    return PublishedSlice(tuple(devices), ({"name": name, "counters": counters},))


def _passed_through(hardware: Hardware, driver: DriverState) -> list[Object]:
    """The functions of GPUs for virtual machines, one for each GPU, also for those that MIG cuts."""
    if "PassthroughSupport" not in driver.gates:
        return []
    made = ({"name": f"gpu-vfio-{each}", "attributes": {"type": {"string": "vfio"}}} for each in range(hardware.gpus))
    return [*hardware.others] or list(made)


def _whole_device(hardware: Hardware, number: int) -> Object:
    attributes = _attributes(hardware, number)
    uuid = attributes.pop("parentUUID", None)
    memory = hardware.memory
    return {
        "name": f"gpu-{number}",
        "attributes": {**attributes, "type": {"string": "gpu"}, "uuid": uuid or {"string": f"GPU-{number}"}},
        **({"capacity": {"memory": {"value": mebibytes_text(memory)}}} if memory else {}),
    }


def _mig_device(hardware: Hardware, number: int, profile: MIGProfile, place: Placement, *, is_made: bool) -> Object:
    """A MIG device that exists, or a partition that the driver can make."""
    spelt = re.sub(r"[^a-z0-9-]", "-", str(profile).replace(".", "").lower()).strip("-")
    covered = range(place.start, place.start + place.size)
    amounts = _amounts(hardware, profile)
    attributes = {
        **{key: value for key, value in _attributes(hardware, number).items() if not _OF_FABRIC.fullmatch(key)},
        "type": {"string": "mig"},
        "profile": {"string": str(profile)},
    }
    name = f"gpu-{number}-mig-{spelt}-{_profile_id(hardware, profile)}-{place.start}"
    capacity = _capacity(amounts)
    if is_made:
        parent = lookup(attributes, ("parentUUID", "string"))
        attributes["uuid"] = {"string": f"MIG-{parent or number}-{spelt}-{place.start}"}
        return {
            "name": name,
            "attributes": attributes,
            "capacity": {**capacity, **{f"memorySlice{each}": {"value": "1"} for each in covered}},
        }
    consumed = {"counterSet": f"gpu-{number}-counter-set", "counters": _counters(amounts, covered)}
    return {"name": name, "attributes": attributes, "capacity": capacity, "consumesCounters": [consumed]}


def _attributes(hardware: Hardware, number: int) -> dict[str, Any]:
    """The common attributes of all devices of one GPU, with its UUID as `parentUUID`."""
    shown = hardware.devices.get(number, ())
    if shown:
        first = mapping_at(shown[0], ("attributes",))
        uuid = first.get("parentUUID") or first.get("uuid")
        common = {key: value for key, value in first.items() if key not in _OF_DEVICE}
        return {**common, **({"parentUUID": uuid} if uuid else {})}
    labels = hardware.labels
    family = labels.get(FAMILY_LABEL, "")
    found: dict[str, Any] = {}
    if hardware.product:
        found["productName"] = {"string": device_name(hardware.product)}
        if _OF_DATA_CENTRES.match(hardware.product):
            found["brand"] = {"string": "Nvidia"}
    if family:
        found["architecture"] = {"string": _ARCHITECTURES.get(family, family.capitalize())}
    compute = ".".join(filter(None, map(labels.get, COMPUTE_LABELS)))
    for name, version in (
        ("cudaComputeCapability", compute),
        ("driverVersion", labels.get(DRIVER_VERSION_LABEL, "")),
        ("cudaDriverVersion", labels.get(CUDA_VERSION_LABEL, "")),
    ):
        if normal := _version(version):
            found[name] = {"version": normal}
    return found


def gated_device(device: Object, driver: DriverState) -> Object:
    """The device in the form that feature gates give it: a list of NUMA nodes, request policies of shares."""
    attributes = mapping_at(device, ("attributes",))
    numa = mapping_at(attributes, (NUMA_NODE,))
    node = next((each for each in (numa.get("int"), *(numa.get("ints") or ())) if each is not None), None)
    if node is not None:
        form = {"ints": [node]} if "DRAListTypeAttributes" in driver.gates else {"int": node}
        device = {**device, "attributes": {**attributes, NUMA_NODE: form}}
    shares = driver.shares
    if "ConsumableShares" not in driver.gates or shares in ("", "disabled"):
        return device
    capacity = dict(mapping_at(device, ("capacity",)))
    memory = lookup(capacity, ("memory", "value"))
    shared = {**device, "allowMultipleAllocations": True}
    if memory is None:
        return shared
    default, least = (memory, "1Mi") if shares == "memory" else ("0", "0")
    bounds = {"min": least, "max": memory, "step": "1Mi"}
    if shares in ("memory", "unlimited") or shares.isdecimal():
        capacity["memory"] = {"value": memory, "requestPolicy": {"default": default, "validRange": bounds}}
    if shares.isdecimal():
        policy = {"default": "1", "validRange": {"min": "1", "max": shares, "step": "1"}}
        capacity["shares"] = {"value": shares, "requestPolicy": policy}
    return {**shared, "capacity": capacity}


def _amounts(hardware: Hardware, profile: MIGProfile) -> dict[str, int]:
    """The capacities of a MIG device by name, memory in MiB, as far as they are known."""
    size = hardware.size(profile)
    engines = zip(ENGINE_CAPACITIES, size.engines, strict=True)
    amounts = {name: number for name, number in engines if number is not None}
    return amounts if size.memory is None else {**amounts, "memory": size.memory}


def _capacity(amounts: Mapping[str, int]) -> dict[str, Any]:
    return {name: {"value": _value(name, amount)} for name, amount in amounts.items()}


def _counters(amounts: Mapping[str, int], covered: Iterable[int]) -> dict[str, Any]:
    names = {**dict(zip(ENGINE_CAPACITIES, _COUNTERS, strict=True)), "memory": "memory"}
    found = {names[name]: {"value": _value(name, amount)} for name, amount in amounts.items()}
    return {**found, **{f"memory-slice-{number}": {"value": "1"} for number in covered}}


def _value(name: str, amount: int) -> str:
    return mebibytes_text(amount) if name == "memory" else str(amount)


def _profile_id(hardware: Hardware, profile: MIGProfile) -> int:
    """The number of a profile in names of devices, as `nvidia-smi mig -lgip` has it.

    Source: NVIDIA MIG user guide, supported profiles; 0 for a GPU of which it is not known.
    """
    match = hardware.mig.match(profile) if hardware.mig is not None else None
    if match is None or hardware.mig is None:
        return 0
    shape = match.shape
    ids = _PROFILE_IDS.get(hardware.mig.layout.compute_slices, {})
    return ids.get((shape.compute_slices, shape.memory_slices, match.profile.attributes), 0)


def _version(text: str) -> str:
    """A semantic version, which has three numbers without leading zeros; empty if the text is none."""
    numbers = text.split(".")
    if not 2 <= len(numbers) <= 3 or not all(each.isdecimal() and each.isascii() for each in numbers):
        return ""
    return ".".join(str(int(each)) for each in (*numbers, "0")[:3])
