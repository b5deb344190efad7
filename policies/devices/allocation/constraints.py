"""Constraints between the devices of one claim: attributes that must be the same, or must differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.reading import AllocationError, Implementation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import Claim, Constraint, Subrequest


_Value = tuple[str, object]
"""A value with its type, since Python's True is 1."""

_SCALARS = ("string", "int", "bool", "version")
_LISTS = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))


def constraints_of(claim: Claim, features: Features) -> list[ConstraintState]:
    """A claim's constraints, having seen no device.

    Raises:
        AllocationError: one is of a kind that this cluster's allocator does not know.
    """
    return [_constraint(claim, position, features) for position in range(len(claim.constraints))]


def attribute_of(device: AllocatableDevice, name: str) -> Mapping[str, Any] | None:
    """A device's attribute by its full name; the domain of a name without one is the driver's.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating lookupAttribute.
    """
    domain, slash, short = name.partition("/")
    found = device.attributes.get(name)
    if found is None and slash and domain == device.slice.driver:
        found = device.attributes.get(short)
    return found if isinstance(found, dict) else None


def _constraint(claim: Claim, position: int, features: Features) -> ConstraintState:
    spec, lists = claim.constraints[position], features.list_type_attributes
    if spec.match_attribute is not None:
        return (_SameInLists if lists else _Same)(spec, spec.match_attribute, lists=lists)
    if spec.distinct_attribute is not None and features.implementation is not Implementation.STABLE:
        return _Distinct(spec, spec.distinct_attribute, lists=lists)
    raise AllocationError(
        f"claim {claim.label}, constraint #{position}: empty constraint (unsupported constraint type?)"
    )


class ConstraintState(ABC):
    """One constraint, and the values of the devices picked so far.

    An attribute is read once for each device. The state goes the ways that Kubernetes' own goes, also where removing a device
    does not restore it.
    """

    def __init__(self, spec: Constraint, attribute: str, *, lists: bool) -> None:
        """Begin without devices; `lists` if attributes can be lists."""
        self.spec = spec
        self._attribute = attribute
        self._lists = lists
        self._known: dict[AllocatableDevice, frozenset[_Value] | None] = {}
        self._count = 0

    def add(self, subrequest: Subrequest, device: AllocatableDevice) -> bool:
        """True if the device satisfies it beside those added before; if so it is added."""
        if not self.spec.covers(subrequest):
            return True
        if device not in self._known:
            attribute = attribute_of(device, self._attribute)
            self._known[device] = None if attribute is None else (_values if self._lists else _scalar)(attribute)
        values = self._known[device]
        if values is None or not self._admit(subrequest, values):
            return False
        self._count += 1
        return True

    def remove(self, subrequest: Subrequest) -> None:
        """Remove the device added last."""
        if self.spec.covers(subrequest):
            self._count -= 1

    @abstractmethod
    def footprint(self) -> Hashable:
        """The state, equal before and after if nothing happened."""

    @abstractmethod
    def _admit(self, subrequest: Subrequest, values: frozenset[_Value]) -> bool:
        """Note the values of one more device, if they satisfy the constraint."""


class _Same(ConstraintState):
    """`matchAttribute`: every device has the attribute, with the value of the first."""

    _common: frozenset[_Value] = frozenset()

    def _admit(self, subrequest: Subrequest, values: frozenset[_Value]) -> bool:
        if self._count == 0:
            self._common = values
            return True
        return bool(values) and values == self._common

    def footprint(self) -> Hashable:
        return self._count, self._common if self._count else None


class _SameInLists(_Same):
    """`matchAttribute` where attributes can be lists: all devices have at least one value in common.

    The values that a device took from the common ones do not come back when it is removed: Kubernetes forgets that too.
    """

    def _admit(self, subrequest: Subrequest, values: frozenset[_Value]) -> bool:
        common = values if self._count == 0 else self._common & values
        if common:
            self._common = common
        return bool(common)


class _Distinct(ConstraintState):
    """`distinctAttribute`: every device has the attribute, and none the value of another.

    Kubernetes keeps one value per request, so of several devices of one request each is compared with the last before
    it only; and with none, once a device of the request was removed.
    """

    def __init__(self, spec: Constraint, attribute: str, *, lists: bool) -> None:
        super().__init__(spec, attribute, lists=lists)
        self._by_request: dict[str, frozenset[_Value]] = {}

    def _admit(self, subrequest: Subrequest, values: frozenset[_Value]) -> bool:
        if self._count and not values and (self._lists or self._by_request):
            return False
        if self._count and not all(values.isdisjoint(other) for other in self._by_request.values()):
            return False
        self._by_request[subrequest.request_name] = values
        return True

    def remove(self, subrequest: Subrequest) -> None:
        super().remove(subrequest)
        if self.spec.covers(subrequest):
            self._by_request.pop(subrequest.request_name, None)

    def footprint(self) -> Hashable:
        return self._count, frozenset(self._by_request.items())


class MissingPairs(NamedTuple):
    """Pairs of devices that a claim wants, and of which a node has too few."""

    position: int
    """The first of their constraints in the claim."""
    requests: tuple[Subrequest, Subrequest]
    """The two requests of that constraint."""
    wanted: int
    possible: int


def missing_pairs(
    claim: Claim, features: Features, usable: Callable[[Subrequest], Sequence[AllocatableDevice]]
) -> MissingPairs | None:
    """The pairs of devices of which there are too few for a claim; None if none is known to be missing.

    A pair is two requests for one device each, of different devices, that must have the same value of an attribute. Pairs count
    together if their attribute and the devices that can serve them are the same.
    """
    pairs: dict[Hashable, list[tuple[int, Subrequest, Subrequest]]] = {}
    devices: dict[Subrequest, Sequence[AllocatableDevice]] = {}
    for position, spec in enumerate(claim.constraints):
        covered = [each for each in claim.subrequests if spec.covers(each)]
        if spec.match_attribute is None or len(covered) != 2 or len({each.request_name for each in covered}) != 2:
            continue
        if any(each.allocation_mode != "ExactCount" or each.count != 1 or each.has_admin_access for each in covered):
            continue
        left, right = covered
        devices |= {each: usable(each) for each in covered if each not in devices}
        key = spec.match_attribute, tuple(frozenset(each.id for each in devices[side]) for side in covered)
        pairs.setdefault(key, []).append((position, left, right))
    for alike in pairs.values():
        position, left, right = alike[0]
        name, both = claim.constraints[position].match_attribute or "", (*devices[left], *devices[right])
        if any(device.is_shareable for device in both) or len({device.id for device in both}) < len(both):
            continue
        attributes = {device.id: attribute_of(device, name) or {} for device in both}
        if features.list_type_attributes and any(attributes[each.id].get(kind) for each in both for kind, _ in _LISTS):
            continue
        lefts, rights = (Counter(_scalar(attributes[each.id]) for each in devices[side]) for side in (left, right))
        possible = sum(min(count, rights[value]) for value, count in lefts.items() if value)
        if possible < len(alike):
            return MissingPairs(position, (left, right), len(alike), possible)
    return None


def _scalar(attribute: Mapping[str, Any]) -> frozenset[_Value]:
    """The value of an attribute that has one, in a set; empty for what no scalar is."""
    for kind in _SCALARS:
        if attribute.get(kind) is not None:
            return frozenset({(kind, attribute[kind])})
    return frozenset()


def _values(attribute: Mapping[str, Any]) -> frozenset[_Value]:
    """The values of an attribute, one or a list."""
    for name, kind in _LISTS:
        if attribute.get(name):
            return frozenset((kind, value) for value in attribute[name])
    return _scalar(attribute)
