"""All devices of the cluster, those that are alike together, so that selectors are asked about each kind once."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.caches import BoundedCache
from policies.dra.cel import CelDevice
from policies.kubernetes.paths import lookup
from policies.kubernetes.resourceslices import PoolPart, newest
from policies.view import UNKNOWN, ClusterView, Unknown
from policies.work import count_work

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.dra.cel import Read
    from policies.kubernetes.objects import Object

__all__ = ["Fleet", "Group", "Member", "SliceMembers", "fleet", "shown_value"]

_PARTS = ("attributes", "capacity")
_INDIVIDUAL = frozenset({"uuid", "parentUUID", "pciBusID", "pcieBusID", "pcieRoot", "gpuModuleID", "index", "minor"})
"""What tells like devices of one node apart."""
_MOST_APART = 4096
"""How many kinds of devices a selector is asked about; a tenth of a second."""
_MOST_KEPT = 16_384
"""Groups in all divisions of a fleet that are kept; a group takes some 3 kB once a selector was asked about it."""
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
    def sample(self) -> CelDevice:
        """The first, as selectors see it."""
        return CelDevice.read({"driver": self.first.driver, **self.first.body})

    @cached_property
    def on_node(self) -> Mapping[str, Sequence[Member]]:
        """Those of each node; under an empty name those that are not tied to one."""
        count_work(len(self.members) // 5)
        found: defaultdict[str, list[Member]] = defaultdict(list)
        for member in self.members:
            found[member.node].append(member)
        return found

    @cached_property
    def by_node(self) -> Counter[str]:
        """How many there are on each node."""
        count_work(len(self.members) // 5)
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


class SliceMembers:
    """The devices of one slice, and what each is like so far as that can be said without those of other slices."""

    __slots__ = ("kinds", "members", "of")

    def __init__(self, members: Iterable[Member]) -> None:
        """Args: the devices, in their order."""
        self.members = tuple(members)
        found = [_kind(member) for member in self.members]
        self.kinds: tuple[_Kind, ...] = tuple(dict.fromkeys(found))
        """Each kind once, the first device's first."""
        self.of: Sequence[_Kind] = self.kinds if len(self.kinds) == 1 else found
        """The kind of each device; one for all where they have only one."""


class Fleet:
    """The devices of all ResourceSlices, grouped."""

    def __init__(self, slices: Sequence[SliceMembers]) -> None:
        """Args: the devices of each slice."""
        kinds = dict.fromkeys(kind for each in slices for kind in each.kinds)
        self._individual = _individual(kinds)
        grouped: defaultdict[Hashable, list[Member]] = defaultdict(list)
        group_of = {kind: grouped[_likeness(kind, self._individual)] for kind in kinds}
        for each in slices:
            groups = {id(group_of[kind]): group_of[kind] for kind in each.kinds}
            if len(groups) == 1:
                group_of[each.kinds[0]].extend(each.members)
                continue
            for member, kind in zip(each.members, each.of, strict=True):
                group_of[kind].append(member)
        self.groups = tuple(map(Group, grouped.values()))
        self._parts: BoundedCache[tuple[Group, tuple[tuple[str, str], ...]], Sequence[Group]] = BoundedCache(_MOST_KEPT)

    def apart(self, groups: Iterable[Group], reads: frozenset[Read] | None) -> list[Group] | None:
        """The groups, those divided whose devices differ in what is read; None where that would be too many to ask.

        Args:
            groups: some of this fleet.
            reads: what a selector reads; None for everything.
        """
        found: list[Group] = []
        for group in groups:
            parts = self._divided(group, reads)
            found += parts
            if not parts or len(found) > _MOST_APART:
                return None
        return found

    def _divided(self, group: Group, reads: frozenset[Read] | None) -> Sequence[Group]:
        """A group divided by what is read; empty where that makes too many groups."""
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
            parted = _parted(group, names)
            known = parted if len(parted) <= _MOST_APART else ()
            self._parts.put((group, names), known, 1 + len(known))
        return known


def fleet(view: ClusterView) -> Fleet | Unknown:
    """All devices; unknown while ResourceSlices are. Use it by `view.derive(fleet)`."""
    slices = view.derive_each("ResourceSlice", _of_slice)
    return UNKNOWN if slices is UNKNOWN else Fleet([*newest(each for each in slices if each is not None)])


def _parted(group: Group, names: tuple[tuple[str, str], ...]) -> Sequence[Group]:
    """The devices of a group by what they have under some names."""
    divided: defaultdict[Hashable, list[Member]] = defaultdict(list)
    count_work(len(group.members) * len(names))
    for member in group.members:
        divided[tuple(repr(_items(member, part).get(name)) for part, name in names)].append(member)
    return tuple(map(Group, divided.values()))


def shown_value(item: Any) -> str:
    """The value of an attribute or capacity for people."""
    if isinstance(item, dict):
        value = next(iter(item.values()), None) if "value" not in item else item["value"]
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return str(item)


def _of_slice(document: Object) -> tuple[PoolPart, SliceMembers] | None:
    """The devices of one slice; None where it is part of no pool."""
    part = PoolPart.of(document)
    return None if part is None else (part, SliceMembers(_members(part.pool[0], document)))


def _members(driver: str, document: Object) -> Iterator[Member]:
    """The devices of a slice; v1beta1 keeps what they have under `basic`."""
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


_Item = tuple[str, str, str | None]
"""Part, name as it is written, and the value as text; None for the value of what always tells like devices apart."""
_Kind = tuple[str, bool, tuple[_Item, ...]]
"""Driver, whether several claims can hold a device at once, and what it has."""


def _kind(member: Member) -> _Kind:
    items = tuple(
        _once((part, name, None if _is_individual(name) else repr(item)))
        for part in _PARTS
        for name, item in _items(member, part).items()
    )
    return member.driver, member.body.get("allowMultipleAllocations") is True, items


@lru_cache(maxsize=4096)
def _once(item: _Item) -> _Item:
    """The same object for what is equal: thousands of devices have the same attributes."""
    return item


@lru_cache(maxsize=1024)
def _is_individual(name: str) -> bool:
    return name.rpartition("/")[2] in _INDIVIDUAL


def _individual(kinds: Iterable[_Kind]) -> frozenset[tuple[str, str, str]]:
    """What is not alike in like devices: part, driver, and the name as it is written."""
    values: defaultdict[tuple[str, str, str], set[str | None]] = defaultdict(set)
    for driver, _, items in kinds:
        for part, name, value in items:
            values[part, driver, name].add(value)
    return frozenset(key for key, known in values.items() if len(known) > _FEW or None in known)


def _likeness(kind: _Kind, individual: Container[tuple[str, str, str]]) -> _Kind:
    driver, shareable, items = kind
    masked = ((part, name, None if (part, driver, name) in individual else value) for part, name, value in items)
    return driver, shareable, tuple(masked)


def _items(member: Member, part: str) -> Mapping[str, Any]:
    items = member.body.get(part)
    return items if isinstance(items, dict) else {}


def _split(driver: str, name: str) -> tuple[str, str]:
    domain, _, identifier = name.rpartition("/")
    return domain or driver, identifier


def _covers(read: Read, part: str, domain: str, name: str) -> bool:
    return read.part == part and read.domain in (None, domain) and read.name in (None, name)
