"""Groups of devices that are alike, and what is counted over groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.bounds import BoundedCache, count_work
from policies.kubernetes.resourceslices import PCI_BUS_ID, PoolPart, Read, devices_in, newest
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

    from policies.cel import CelDevice
    from policies.kubernetes.objects import Object
    from policies.kubernetes.resourceslices import Device


class DeviceGroup:
    """Devices that are alike but for what tells each one apart, such as the UUID."""

    def __init__(self, devices: Sequence[Device]) -> None:
        """Make a group of at least one device."""
        self.devices = devices

    @property
    def first(self) -> Device:
        """One of the devices."""
        return self.devices[0]

    @cached_property
    def sample(self) -> CelDevice:
        """The first device, as selectors see it."""
        # Most offline reviews evaluate no selector.
        from policies.devices.possible_types import as_selectors_see

        return as_selectors_see(self.first)

    @cached_property
    def on_node(self) -> Mapping[str, Sequence[Device]]:
        """The devices of each node; under an empty name those that several nodes reach."""
        count_work(len(self.devices) // 5)
        found: defaultdict[str, list[Device]] = defaultdict(list)
        for device in self.devices:
            found[device.node].append(device)
        return found

    @cached_property
    def by_node(self) -> Counter[str]:
        """The number of devices of each node; under an empty name those that several nodes reach."""
        count_work(len(self.devices) // 5)
        return Counter([device.node for device in self.devices])

    @cached_property
    def most_on_a_node(self) -> int:
        """The number of devices of the node that has most of them."""
        return max(self.by_node.values())

    @property
    def is_shareable(self) -> bool:
        """True if several claims or requests can hold one of the devices at once."""
        return self.first.is_shareable

    @cached_property
    def type(self) -> str:
        """`gpu`, `mig` or `vfio` for devices of NVIDIA's driver; empty if there is no such attribute."""
        return str(self.first.attributes.get(f"{DRIVER}/type", ""))

    @cached_property
    def product(self) -> str:
        """The product as labels spell it, followed by the MIG profile of MIG devices."""
        name = self.first.attributes.get(f"{DRIVER}/productName")
        product = str(name).replace(" ", "-") if name else "a GPU without a name"
        profile = self.first.attributes.get(f"{DRIVER}/profile")
        return f"{product} MIG {profile}" if profile else product

    def has(self, part: str, domain: str, name: str) -> bool:
        """True if the devices have an attribute or capacity."""
        return self.first.item(part, domain, name) is not None

    def value_of(self, read: Read) -> str | None:
        """The value of a part of the devices, for people; None if they lack it."""
        match read.part:
            case "driver":
                return self.first.driver
            case "allowMultipleAllocations":
                return "true" if self.is_shareable else "false"
        item = self.first.item(read.part, read.domain or "", read.name or "")
        return None if item is None else shown_value(item)

    def domains(self, part: str) -> frozenset[str]:
        """The domains of the attributes or capacities that the devices have."""
        return frozenset(self.sample.attributes if part == "attributes" else self.sample.capacity)


def device_count(groups: Iterable[DeviceGroup]) -> int:
    """The number of devices in groups."""
    return sum(len(group.devices) for group in groups)


def largest_node(counts: Iterable[Mapping[str, int]]) -> tuple[str, int]:
    """The node that reaches most devices, and how many; of equal nodes the first by name.

    Args:
        counts: How many devices of some kind there are on each node. Those under an empty name are reached by several
            nodes, and counted for each; the node is called `any node` if there are no others.
    """
    nodes: Counter[str] = Counter()
    for each in counts:
        nodes.update(each)
    everywhere = nodes.pop("", 0)
    node, count = min(nodes.items(), key=lambda item: (-item[1], item[0]), default=("any node", 0))
    return node, count + everywhere


def shown_value(item: Any) -> str:
    """The value of an attribute or capacity for people."""
    if isinstance(item, dict):
        value = next(iter(item.values()), None) if "value" not in item else item["value"]
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return str(item)


_PARTS = ("attributes", "capacity")
_INDIVIDUAL = frozenset({"uuid", "parentUUID", "pciBusID", "pcieBusID", "pcieRoot", "gpuModuleID", "index", "minor"})
"""Attributes that differ between like devices of one node."""
_FEW = 32
"""An attribute with more values than this in the cluster is treated as one that differs between like devices."""
_MOST_APART = 4096
"""The most groups that a selector runs on; they take a tenth of a second."""
_MOST_KEPT = 16_384
"""The most groups that are cached when groups are divided; a group takes some 3 kB once a selector ran on it."""
_MOST_EVALUATED = 8_192
"""The most groups in all evaluations that are cached."""
_GPU_READS = tuple(
    Read(part, DRIVER, name)
    for part, names in {
        "attributes": (
            "type",
            "productName",
            "architecture",
            "cudaComputeCapability",
            "driverVersion",
            "cudaDriverVersion",
            "profile",
        ),
        "capacity": (
            *("memory", "shares", "multiprocessors", "copyEngines"),
            *("decoders", "encoders", "jpegEngines", "ofaEngines"),
        ),
    }.items()
    for name in names
)
"""The parts of a GPU that labels of nodes, wishes and quotas can name."""


class SliceDevices:
    """The devices of one slice, each with its kind: everything but what tells it apart."""

    __slots__ = ("_by_name", "devices", "kinds", "of")

    def __init__(self, devices: Iterable[Device]) -> None:
        """Determine the kind of each device; the devices are in their order."""
        self.devices = tuple(devices)
        found = [_kind(device) for device in self.devices]
        self.kinds: tuple[_Kind, ...] = tuple(dict.fromkeys(found))
        """Each kind once, the kind of the first device first."""
        self.of: Sequence[_Kind] = self.kinds if len(self.kinds) == 1 else found
        """The kind of each device; one kind if all devices have the same."""
        self._by_name: Mapping[str, Device] | None = None

    def find(self, name: str) -> Device | None:
        """The device of a name."""
        if self._by_name is None:
            self._by_name = {device.name: device for device in self.devices}
        return self._by_name.get(name)


class Evaluation(NamedTuple):
    """The verdicts of a selector on some groups of devices."""

    groups: Sequence[DeviceGroup]
    """The groups, divided by what the selector reads."""
    matched: Sequence[DeviceGroup]
    failed: Sequence[tuple[DeviceGroup, str]]
    """The groups on which the selector fails, each with CEL's message."""

    @property
    def weight(self) -> int:
        """The number of groups, and of 60 characters of messages."""
        return 1 + len(self.groups) + sum(len(message) for _, message in self.failed) // 60


class PublishedDevices:
    """The devices of all ResourceSlices, grouped."""

    def __init__(self, slices: Sequence[SliceDevices]) -> None:
        """Group the devices of all slices."""
        count_work(4 * len(slices))
        self._slices = slices
        kinds = {id(kind): kind for each in slices for kind in each.kinds}
        self._individual = _individual(kinds.values())
        grouped: defaultdict[Hashable, list[Device]] = defaultdict(list)
        group_of = {key: grouped[_likeness(kind, self._individual)] for key, kind in kinds.items()}
        for each in slices:
            if len(each.kinds) == 1 or len({id(group_of[id(kind)]) for kind in each.kinds}) == 1:
                group_of[id(each.kinds[0])].extend(each.devices)
                continue
            for device, kind in zip(each.devices, each.of, strict=True):
                group_of[id(kind)].append(device)
        self.groups = tuple(map(DeviceGroup, grouped.values()))
        self._parts: BoundedCache[tuple[DeviceGroup, tuple[tuple[str, str], ...]], Sequence[DeviceGroup]]
        self._parts = BoundedCache(_MOST_KEPT)
        self.evaluations: BoundedCache[tuple[int, tuple[DeviceGroup, ...]], Evaluation] = BoundedCache(_MOST_EVALUATED)
        """Evaluations of selectors on groups of these devices, by the selector's number."""

    @cached_property
    def gpus(self) -> tuple[DeviceGroup, ...]:
        """The devices of NVIDIA's GPU driver; in one group are those that no label and no wish can tell apart.

        The devices for virtual machines (`gpu-vfio-N`) of GPUs that MIG divides are left out: they are no further GPUs, and
        the driver cannot prepare them while MIG divides the GPU.
        """
        alike: defaultdict[Hashable, list[DeviceGroup]] = defaultdict(list)
        own = _without_divided([group for group in self.groups if group.first.driver == DRIVER])
        for group in self.divide_or_single(own, frozenset(_GPU_READS)):
            alike[
                group.is_shareable,
                *(repr(group.first.item(part, domain or "", name or "")) for part, domain, name in _GPU_READS),
            ].append(group)
        return tuple(
            groups[0] if len(groups) == 1 else DeviceGroup([*chain.from_iterable(each.devices for each in groups)])
            for groups in alike.values()
        )

    @cached_property
    def types_by_node(self) -> Mapping[str, frozenset[str]]:
        """The types of the devices of NVIDIA's GPU driver on each node that has any."""
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for group in self.gpus:
            nodes[group.type].update(node for node in group.by_node if node)
        found: dict[str, frozenset[str]] = {}
        for name, having in nodes.items():
            alone = frozenset({name})
            for node in having:
                found[node] = found[node] | alone if node in found else alone
        return found

    @cached_property
    def sharing_nodes(self) -> frozenset[str]:
        """The nodes with GPUs that NVIDIA's driver shares between claims."""
        return frozenset[str]().union(*(group.by_node for group in self.gpus if group.is_shareable))

    def find(self, driver: str, pool: str, name: str) -> Device | None:
        """The device that an allocation names; None if no slice has it any more."""
        found = (each.find(name) for each in self._by_pool.get((driver, pool), ()))
        return next(filter(None, found), None)

    def divide(self, groups: Iterable[DeviceGroup], reads: frozenset[Read] | None) -> list[DeviceGroup] | None:
        """Divide groups until the devices of each agree in what is read; None if these would be too many.

        Args:
            groups: some groups of these devices.
            reads: what a selector reads; None for everything.
        """
        found: list[DeviceGroup] = []
        names_of: dict[str, tuple[tuple[str, str], ...]] = {}
        for group in groups:
            driver = group.devices[0].driver
            if driver not in names_of:
                names_of[driver] = self._read_names(driver, reads)
            names = names_of[driver]
            parts = self._divide_group(group, names) if names and len(group.devices) > 1 else (group,)
            found += parts
            if not parts or len(found) > _MOST_APART:
                return None
        return found

    def divide_or_single(self, groups: Sequence[DeviceGroup], reads: frozenset[Read]) -> Sequence[DeviceGroup]:
        """Divide groups as `divide` does; each device alone if these would be too many groups."""
        parts = self.divide(groups, reads)
        return [DeviceGroup([device]) for group in groups for device in group.devices] if parts is None else parts

    @cached_property
    def _by_pool(self) -> Mapping[tuple[str, str], Sequence[SliceDevices]]:
        pools: defaultdict[tuple[str, str], list[SliceDevices]] = defaultdict(list)
        for each in self._slices:
            if each.devices:
                pools[each.devices[0].driver, each.devices[0].pool].append(each)
        return pools

    @cached_property
    def _individual_of_driver(self) -> Mapping[str, Mapping[Read | None, Sequence[tuple[str, str]]]]:
        """The parts that differ between like devices, by driver and by each read of it.

        Part, and name as it is written; under None all that differs.
        """
        found: defaultdict[str, defaultdict[Read | None, list[tuple[str, str]]]]
        found = defaultdict(lambda: defaultdict(list))
        for part, driver, name in self._individual:
            domain, _, identifier = name.rpartition("/")
            forms = (Read(part, *form) for form in product((domain or driver, None), (identifier, None)))
            for read in (None, *forms):
                found[driver][read].append((part, name))
        return found

    def _read_names(self, driver: str, reads: frozenset[Read] | None) -> tuple[tuple[str, str], ...]:
        """Part and name of what is read and differs between like devices of a driver."""
        individual = self._individual_of_driver.get(driver, {})
        return tuple(
            sorted({name for read in ((None,) if reads is None else reads) for name in individual.get(read, ())})
        )

    def _divide_group(self, group: DeviceGroup, names: tuple[tuple[str, str], ...]) -> Sequence[DeviceGroup]:
        """Divide one group by what its devices have under some names; empty if that makes too many groups."""
        known = self._parts.get((group, names))
        if known is None:
            parts = _parts(group, names)
            known = parts if len(parts) <= _MOST_APART else ()
            self._parts.put((group, names), known, 1 + len(known))
        return known


def _without_divided(groups: Sequence[DeviceGroup]) -> Sequence[DeviceGroup]:
    """Groups of NVIDIA's devices, without vfio devices at the PCI address of a GPU that MIG divides.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/nvlib.go: each GPU has a vfio device, and
    that of a GPU with MIG devices is not tied to them.
    """
    if not any(group.type == "vfio" for group in groups):
        return groups
    divided = {
        (device.pool, bus)
        for group in groups
        if group.type == "mig"
        for device in group.devices
        if (bus := device.attributes.get(PCI_BUS_ID)) is not None
    }
    kept: list[DeviceGroup] = []
    for group in groups:
        devices = group.devices
        if group.type == "vfio":
            devices = [each for each in devices if (each.pool, each.attributes.get(PCI_BUS_ID)) not in divided]
        if devices:
            kept.append(group if devices is group.devices else DeviceGroup(devices))
    return kept


def published_devices(view: ClusterView) -> PublishedDevices | Unknown:
    """All published devices; unknown while ResourceSlices are. Use it by `view.derive(published_devices)`."""
    slices = view.derive_each("ResourceSlice", _slice_devices)
    return UNKNOWN if slices is UNKNOWN else PublishedDevices([*newest(each for each in slices if each is not None)])


def gpu_groups(view: ClusterView) -> tuple[DeviceGroup, ...] | Unknown:
    """The published GPUs, grouped (`PublishedDevices.gpus`); unknown while ResourceSlices are."""
    known = view.derive(published_devices)
    return UNKNOWN if known is UNKNOWN else known.gpus


def _slice_devices(document: Object) -> tuple[PoolPart, SliceDevices] | None:
    """The devices of one slice; None if it belongs to no pool."""
    part = PoolPart.of(document)
    return None if part is None else (part, SliceDevices(devices_in(document)))


def _parts(group: DeviceGroup, names: tuple[tuple[str, str], ...]) -> Sequence[DeviceGroup]:
    """The devices of a group, divided by what they have under some names."""
    divided: defaultdict[Hashable, list[Device]] = defaultdict(list)
    count_work(len(group.devices) * len(names))
    for device in group.devices:
        divided[tuple(repr(device.items_of(part).get(name)) for part, name in names)].append(device)
    return tuple(map(DeviceGroup, divided.values()))


class _Item(NamedTuple):
    """An attribute or capacity."""

    part: str
    name: str
    """As it is written, with or without a domain."""
    value: str | None
    """As text; None for what always differs between like devices."""


class _Kind(NamedTuple):
    """Everything that a device says, but for what tells it apart."""

    driver: str
    is_shareable: bool
    items: tuple[_Item, ...]


_KINDS: BoundedCache[tuple[str, bool, str], _Kind] = BoundedCache(4 * 1024 * 1024)
"""Kinds by driver, sharing, and the text of their items, up to so many characters: thousands of devices are of one kind."""


def _kind(device: Device) -> _Kind:
    items = [
        (part, name, None if _is_individual(name) else item)
        for part in _PARTS
        for name, item in device.items_of(part).items()
    ]
    key = device.driver, device.is_shareable, repr(items)
    kind = _KINDS.get(key)
    if kind is None:
        values = tuple(
            _shared_item(_Item(part, name, None if _is_individual(name) else repr(item))) for part, name, item in items
        )
        kind = _Kind(device.driver, device.is_shareable, values)
        _KINDS.put(key, kind, len(key[2]))
    return kind


@lru_cache(maxsize=8192)
def _shared_item(item: _Item) -> _Item:
    """The same object for equal items: many kinds have the same attributes."""
    return item


@lru_cache(maxsize=1024)
def _is_individual(name: str) -> bool:
    return name.rpartition("/")[2] in _INDIVIDUAL


def _individual(kinds: Iterable[_Kind]) -> frozenset[tuple[str, str, str]]:
    """The parts that differ between like devices: part, driver, and the name as it is written."""
    values: defaultdict[tuple[str, str, str], set[str | None]] = defaultdict(set)
    for driver, _, items in kinds:
        for part, name, value in items:
            values[part, driver, name].add(value)
    return frozenset(key for key, known in values.items() if len(known) > _FEW or None in known)


def _likeness(kind: _Kind, individual: Container[tuple[str, str, str]]) -> Hashable:
    driver, is_shareable, items = kind
    masked = ((part, name, None if (part, driver, name) in individual else value) for part, name, value in items)
    return driver, is_shareable, tuple(masked)
