"""All devices of the cluster, those that are alike together, so that selectors are asked about each kind once."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.dra.cel import Device
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.dra.cel.reads import Read
    from policies.kubernetes.objects import Object

__all__ = ["Fleet", "Group", "Member", "fleet", "shown_value"]

_PARTS = ("attributes", "capacity")
_INDIVIDUAL = frozenset({"uuid", "parentUUID", "pciBusID", "pcieBusID", "pcieRoot", "gpuModuleID", "index", "minor"})
"""What tells like devices of one node apart."""
_MOST_APART = 4096
"""How many kinds of devices a selector is asked about; a tenth of a second."""
_KEPT = 32
_FEW = 32
"""An attribute with more values than these over the cluster is taken for one that tells devices apart, too."""


class Member(NamedTuple):
    """A device as its slice has it."""

    driver: str
    node: str
    """Empty where it is not tied to one node by name."""
    name: str
    body: Mapping[str, Any]
    """What has `attributes` and `capacity`."""

    @property
    def label(self) -> str:
        """The device for people."""
        return f"{self.name} on {self.node}" if self.node else self.name

    def item(self, part: str, domain: str, name: str) -> Any:
        """An attribute or a capacity as it is written; None where there is none."""
        items = self.body.get(part)
        if not isinstance(items, dict):
            return None
        full = items.get(f"{domain}/{name}")
        return items.get(name) if full is None and domain == self.driver else full


class Group:
    """Devices that differ in nothing but what tells each one apart, so that most selectors see no difference."""

    def __init__(self, members: Sequence[Member]) -> None:
        """Args: the devices, at least one."""
        self.members = members

    @property
    def first(self) -> Member:
        """One of them."""
        return self.members[0]

    @cached_property
    def sample(self) -> Device:
        """The first, as selectors see it."""
        return Device.read({"driver": self.first.driver, **self.first.body})

    @cached_property
    def on_node(self) -> Mapping[str, Sequence[Member]]:
        """Those of each node; under an empty name those that are not tied to one."""
        found: defaultdict[str, list[Member]] = defaultdict(list)
        for member in self.members:
            found[member.node].append(member)
        return found

    @cached_property
    def by_node(self) -> Counter[str]:
        """How many there are on each node."""
        return Counter(member.node for member in self.members)

    @cached_property
    def most_on_a_node(self) -> int:
        """How many there are on the node that has most of them."""
        return max(self.by_node.values())

    @property
    def is_shareable(self) -> bool:
        """Whether several claims, or requests, can hold one of them at once."""
        return self.first.body.get("allowMultipleAllocations") is True

    def has(self, part: str, domain: str, name: str) -> bool:
        """Whether they have an attribute or capacity."""
        return self.first.item(part, domain, name) is not None

    def domains(self, part: str) -> frozenset[str]:
        """The domains in which they have any."""
        return frozenset(self.sample.attributes if part == "attributes" else self.sample.capacity)


class Fleet:
    """The devices of all ResourceSlices, grouped."""

    def __init__(self, members: Iterable[Member]) -> None:
        """Args: the devices."""
        everything = list(members)
        self._individual = _individual(everything)
        grouped: defaultdict[Hashable, list[Member]] = defaultdict(list)
        for member in everything:
            grouped[self._likeness(member)].append(member)
        self.groups = tuple(map(Group, grouped.values()))
        self._parts: dict[tuple[Group, tuple[tuple[str, str], ...]], Sequence[Group]] = {}

    def apart(self, groups: Iterable[Group], reads: frozenset[Read] | None) -> list[Group] | None:
        """The groups, those divided whose devices differ in what is read; None where that would be too many to ask.

        Args:
            groups: some of this fleet.
            reads: what a selector reads; None for everything.
        """
        found: list[Group] = []
        for group in groups:
            found += self._divided(group, reads)
            if len(found) > _MOST_APART:
                return None
        return found

    def _divided(self, group: Group, reads: frozenset[Read] | None) -> Sequence[Group]:
        if len(group.members) == 1:
            return (group,)
        driver = group.first.driver
        names = tuple(
            (part, name)
            for part, owner, name in self._individual
            if owner == driver
            if reads is None or any(_covers(read, part, *_split(driver, name)) for read in reads)
        )
        if not names:
            return (group,)
        known = self._parts.get((group, names))
        if known is None:
            if len(self._parts) >= _KEPT:
                self._parts.clear()
            known = self._parts[group, names] = _parted(group, names)
        return known

    def _likeness(self, member: Member) -> Hashable:
        driver, individual = member.driver, self._individual
        key: list[Hashable] = [driver, member.body.get("allowMultipleAllocations") is True]
        for part in _PARTS:
            for name, item in _items(member, part).items():
                key.append(name)
                key.append(None if (part, driver, name) in individual else repr(item))
        return tuple(key)


def fleet(view: ClusterView) -> Fleet | Unknown:
    """All devices; unknown while ResourceSlices are. Use it by `view.derive(fleet)`."""
    slices = view.list("ResourceSlice")
    return UNKNOWN if slices is UNKNOWN else Fleet(_members(slices))


def _parted(group: Group, names: tuple[tuple[str, str], ...]) -> Sequence[Group]:
    """The devices of a group by what they have under some names."""
    divided: defaultdict[Hashable, list[Member]] = defaultdict(list)
    for member in group.members:
        divided[tuple(repr(_items(member, part).get(name)) for part, name in names)].append(member)
    return tuple(map(Group, divided.values()))


def shown_value(item: Any) -> str:
    """The value of an attribute or capacity for people."""
    if isinstance(item, dict):
        value = next(iter(item.values()), None) if "value" not in item else item["value"]
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return str(item)


def _members(slices: Iterable[Object]) -> Iterator[Member]:
    """The devices of the newest generation of every pool; v1beta1 keeps what they have under `basic`."""
    newest: dict[tuple[str, str], tuple[int, list[Object]]] = {}
    for document in slices:
        spec = document.get("spec")
        driver, pool = lookup(spec, ("driver",)), lookup(spec, ("pool", "name"))
        generation = lookup(spec, ("pool", "generation")) or 0
        if not isinstance(driver, str) or not isinstance(pool, str) or not isinstance(generation, int):
            continue
        known = newest.get((driver, pool))
        if known is None or generation > known[0]:
            newest[driver, pool] = (generation, [document])
        elif generation == known[0]:
            known[1].append(document)
    for (driver, _), (_, members) in sorted(newest.items(), key=lambda item: item[0]):
        for document in sorted(members, key=name_of):
            yield from _of_slice(driver, document)


def _of_slice(driver: str, document: Object) -> Iterator[Member]:
    node = lookup(document, ("spec", "nodeName"))
    devices = lookup(document, ("spec", "devices"))
    for device in devices if isinstance(devices, list) else ():
        if not isinstance(device, dict) or not isinstance(device.get("name"), str):
            continue
        basic = device.get("basic")
        body = basic if isinstance(basic, dict) else device
        own = body.get("nodeName")
        where = own if isinstance(own, str) else node if isinstance(node, str) else ""
        yield Member(driver, where, device["name"], body)


def _individual(members: Iterable[Member]) -> frozenset[tuple[str, str, str]]:
    """What is not alike in like devices: part, driver, and the name as it is written."""
    found: set[tuple[str, str, str]] = set()
    values: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for member in members:
        for part in _PARTS:
            for name, item in _items(member, part).items():
                key = (part, member.driver, name)
                if key in found:
                    continue
                known = values[key]
                known.add(repr(item))
                if len(known) > _FEW or name.rpartition("/")[2] in _INDIVIDUAL:
                    found.add(key)
    return frozenset(found)


def _items(member: Member, part: str) -> Mapping[str, Any]:
    items = member.body.get(part)
    return items if isinstance(items, dict) else {}


def _split(driver: str, name: str) -> tuple[str, str]:
    domain, _, identifier = name.rpartition("/")
    return domain or driver, identifier


def _covers(read: Read, part: str, domain: str, name: str) -> bool:
    return read.part == part and read.domain in (None, domain) and read.name in (None, name)
