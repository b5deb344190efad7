"""The capacity that a request requires: which devices have it, and enough of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.dra.claims.cluster.wording import devices
from policies.dra.claims.field_errors import qualified_name_error
from policies.dra.device_groups import device_count, shown_value
from policies.dra.device_reads import Read
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction
    from typing import Any

    from policies.dra.device_groups import DeviceGroup
    from policies.dra.published_devices import PublishedDevices
    from policies.dra.resource_claims import Subrequest

__all__ = ["Shortage", "requested_capacity", "shortage", "with_capacity"]

_MOST = 32
"""Capacities of one request that are looked at."""
_LISTED = 5


class Shortage(NamedTuple):
    """A capacity that no device has, or has enough of."""

    name: str
    message: str
    remedy: str


def requested_capacity(subrequest: Subrequest) -> Mapping[str, Any]:
    """The requested amounts by name, as they are written; empty if other rules report them."""
    found = subrequest.capacity or {}
    if len(found) > _MOST:
        return {}
    usable = not any(qualified_name_error(name) for name in found)
    return found if usable and all(_amount(value) is not None for value in found.values()) else {}


def with_capacity(
    known: PublishedDevices, groups: Sequence[DeviceGroup], wanted: Mapping[str, Any]
) -> Sequence[DeviceGroup] | None:
    """The devices that have all requested capacities; None if there are too many kinds of devices.

    The rest of a device does not count, nor what its request policy makes of an amount.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
    """
    if not wanted:
        return groups
    reads = frozenset(Read("capacity", None, name.rpartition("/")[2]) for name in wanted)
    apart = known.divide(groups, reads)
    if apart is None:
        return None
    return [group for group in apart if all(_suffices(group, name, value) for name, value in wanted.items())]


def shortage(known: PublishedDevices, groups: Sequence[DeviceGroup], wanted: Mapping[str, Any]) -> Shortage | None:
    """The first capacity that no device has enough of; None if only their combination is missing."""
    whose = (
        "the only device that matches"
        if device_count(groups) == 1
        else f"none of the {devices(device_count(groups))} that match"
    )
    for name, value in wanted.items():
        having = [group for group in groups if _published_capacity(group, name) is not None]
        if not having:
            lacks = "does not have it" if device_count(groups) == 1 else "has it"
            return Shortage(name, f"is an unknown capacity: {whose} {lacks}", _other(groups, name))
        if with_capacity(known, having, {name: value}) == []:
            apart = known.divide(having, frozenset({Read("capacity", None, name.rpartition("/")[2])})) or having
            most = shown_value(_published_capacity(max(apart, key=lambda group: _has(group, name)), name))
            text = f"requests {printable(str(value))}, and the largest of the devices that match has {printable(most)}"
            return Shortage(name, text, f"request at most {printable(most)}, or wait for a node with more")
    return None


def _suffices(group: DeviceGroup, name: str, value: Any) -> bool:
    item = _published_capacity(group, name)
    amount = _amount(value)
    return item is not None and amount is not None and _has(group, name) >= amount


def _published_capacity(group: DeviceGroup, name: str) -> Any:
    """A capacity as the slice has it; names count as they are written, with or without their domain."""
    items = group.first.body.get("capacity")
    return items.get(name) if isinstance(items, dict) else None


def _has(group: DeviceGroup, name: str) -> Fraction | float:
    """How much there is; any amount where that cannot be read, so that nothing is said."""
    amount = _amount(lookup(_published_capacity(group, name), ("value",)))
    return float("inf") if amount is None else amount


def _amount(value: Any) -> Fraction | None:
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def _other(groups: Sequence[DeviceGroup], name: str) -> str:
    """The capacity to request instead of one that no device has."""
    found = {str(known) for group in groups for known in _names(group)}
    identifiers = {known.rpartition("/")[2]: known for known in sorted(found)}
    guess = closest(name.rpartition("/")[2], identifiers)
    if guess:
        return f'write "{identifiers[guess]}"'
    if not found:
        return "remove it; these devices have no capacity"
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"remove it; there are {printable(', '.join(sorted(found)[:_LISTED]))}{more}"


def _names(group: DeviceGroup) -> Sequence[str]:
    items = group.first.body.get("capacity")
    return list(items) if isinstance(items, dict) else []
