"""Constraints between the devices of one claim: attributes that must be the same, or must differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from policies.devices.allocation.reading import AllocationError, Implementation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import Claim, Constraint, Subrequest

__all__ = ["ConstraintState", "attribute_of", "constraints_of"]

_Value = tuple[str, object]
"""A value with its type, since Python's True is 1."""

_SCALARS = ("string", "int", "bool", "version")
_LISTS = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))


class ConstraintState(Protocol):
    """One constraint, and what it has seen of the devices picked so far.

    The state goes the ways that Kubernetes' own goes, also where removing a device does not restore it.
    """

    spec: Constraint

    def add(self, subrequest: Subrequest, device: AllocatableDevice) -> bool:
        """True if the device satisfies it beside those added before; if so it is added."""
        ...

    def remove(self, subrequest: Subrequest) -> None:
        """Remove the device added last."""
        ...

    def footprint(self) -> Hashable:
        """The state, equal before and after if nothing happened."""
        ...


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
    spec = claim.constraints[position]
    if spec.match_attribute is not None:
        return (
            _SameInLists(spec, spec.match_attribute)
            if features.list_type_attributes
            else _Same(spec, spec.match_attribute)
        )
    if spec.distinct_attribute is not None and features.implementation is not Implementation.STABLE:
        return _Distinct(spec, spec.distinct_attribute, lists=features.list_type_attributes)
    raise AllocationError(
        f"claim {claim.label}, constraint #{position}: empty constraint (unsupported constraint type?)"
    )


class _Values:
    """The values of one attribute, read once for each device; None where a device does not have it."""

    def __init__(self, attribute: str, read: Callable[[Mapping[str, Any]], frozenset[_Value]]) -> None:
        self._attribute = attribute
        self._read = read
        self._known: dict[AllocatableDevice, frozenset[_Value] | None] = {}

    def of(self, device: AllocatableDevice) -> frozenset[_Value] | None:
        if device not in self._known:
            attribute = attribute_of(device, self._attribute)
            self._known[device] = None if attribute is None else self._read(attribute)
        return self._known[device]


class _Same:
    """`matchAttribute`: every device has the attribute, with the value of the first."""

    def __init__(self, spec: Constraint, attribute: str) -> None:
        self.spec = spec
        self._values = _Values(attribute, _scalar)
        self._count = 0
        self._first: frozenset[_Value] = frozenset()

    def add(self, subrequest: Subrequest, device: AllocatableDevice) -> bool:
        if not self.spec.covers(subrequest):
            return True
        value = self._values.of(device)
        if value is None:
            return False
        if self._count == 0:
            self._first = value
        elif not value or value != self._first:
            return False
        self._count += 1
        return True

    def remove(self, subrequest: Subrequest) -> None:
        if self.spec.covers(subrequest):
            self._count -= 1

    def footprint(self) -> Hashable:
        return self._count, self._first if self._count else None


class _SameInLists:
    """`matchAttribute` where attributes can be lists: all devices have at least one value in common."""

    def __init__(self, spec: Constraint, attribute: str) -> None:
        self.spec = spec
        self._values = _Values(attribute, _values)
        self._count = 0
        self._common: frozenset[_Value] = frozenset()

    def add(self, subrequest: Subrequest, device: AllocatableDevice) -> bool:
        if not self.spec.covers(subrequest):
            return True
        values = self._values.of(device) or frozenset()
        common = values if self._count == 0 else self._common & values
        if not common:
            return False
        self._common = common
        self._count += 1
        return True

    def remove(self, subrequest: Subrequest) -> None:
        """Remove a device; values that it took from the common ones do not come back, as in Kubernetes."""
        if self.spec.covers(subrequest):
            self._count -= 1

    def footprint(self) -> Hashable:
        return self._count, self._common if self._count else None


class _Distinct:
    """`distinctAttribute`: every device has the attribute, and none the value of another.

    Kubernetes keeps one value per request, so of several devices of one request each is compared with the last before
    it only; and with none, once a device of the request was removed.
    """

    def __init__(self, spec: Constraint, attribute: str, *, lists: bool) -> None:
        self.spec = spec
        self._values = _Values(attribute, _values if lists else _scalar)
        self._lists = lists
        self._count = 0
        self._by_request: dict[str, frozenset[_Value]] = {}

    def add(self, subrequest: Subrequest, device: AllocatableDevice) -> bool:
        if not self.spec.covers(subrequest):
            return True
        values = self._values.of(device)
        if values is None:
            return False
        if self._count and not self._differs(values):
            return False
        self._by_request[subrequest.request_name] = values
        self._count += 1
        return True

    def remove(self, subrequest: Subrequest) -> None:
        if self.spec.covers(subrequest):
            self._by_request.pop(subrequest.request_name, None)
            self._count -= 1

    def footprint(self) -> Hashable:
        return self._count, frozenset(self._by_request.items())

    def _differs(self, values: frozenset[_Value]) -> bool:
        if not values:
            return not self._lists and not self._by_request
        return all(values.isdisjoint(other) for other in self._by_request.values())


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
