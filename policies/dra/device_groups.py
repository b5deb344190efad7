"""Groups of devices that are alike, and what is counted over groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.nvidia.identifiers import DRIVER
from policies.work import count_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.dra.cel import CelDevice
    from policies.dra.device_reads import Read
    from policies.kubernetes.resourceslices import Device

__all__ = ["DeviceGroup", "device_count", "largest_node", "shown_value"]


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
        from policies.dra.device_samples import as_selectors_see

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
