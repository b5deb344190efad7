"""Classes: the devices that DeviceClasses and selectors choose, and what selectors require of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from policies.cel import CelCompileError, Read, split_conjuncts
from policies.devices.conditions import read_condition
from policies.devices.effort import MOST_TEXT, Effort, select_devices, size_of
from policies.devices.published_devices import published_devices
from policies.fleet.known_classes import KnownClasses, known_classes
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import MIGProfile
from policies.nvidia.products import fold_name
from policies.quota.demands.device_kinds import GIB, any_profile, possible_mig_devices, unseen_gpu, unseen_slice
from policies.rules.charges import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.devices.conditions import Condition
    from policies.devices.published_devices import DeviceGroup, PublishedDevices


_PRODUCT = Read("attributes", DRIVER, "productName")
_PROFILE = Read("attributes", DRIVER, "profile")
_MEMORY = Read("capacity", DRIVER, "memory")
_MOST_NAMED = 64
"""The most values that a selector may list; with more, the list is ignored."""


@dataclass(frozen=True, slots=True)
class NecessaryConditions:
    """The types, products, profiles and memory that a matching device can have."""

    types: frozenset[str]
    """Of NVIDIA's GPU driver; empty if only devices of other drivers match."""
    products: frozenset[str] | None = None
    """As labels spell them, perhaps in lower case; None for any."""
    profiles: frozenset[str] | None = None
    most_memory: int | None = None
    """The most bytes of memory; None for any."""
    is_shareable: bool = False
    """True if only devices match that several claims can hold."""

    def unseen(self, view: ClusterView, product: str = "") -> frozenset[DeviceKind]:
        """The possible kinds of devices that no slice shows.

        Args:
            view: The cluster, whose GPUs say which MIG devices are possible if the product is unknown.
            product: Empty if it is unknown.
        """
        kinds: set[DeviceKind] = set()
        if self.types & {"gpu", "vfio"} and self.profiles is None:
            kinds.add(unseen_gpu(product))
        if "mig" in self.types:
            if self.profiles is not None:
                kinds |= {_slice(each, product) for each in self.profiles}
            else:
                kinds |= any_profile(product) if product else view.derive(possible_mig_devices)
        most = self.most_memory
        if most is None:
            return frozenset(kinds)
        return frozenset(
            replace(kind, memory=most if kind.memory is None else min(kind.memory, most))
            for kind in kinds
            if _least_memory(kind) <= most
        )

    def missing_kinds(self, view: ClusterView, shown: frozenset[DeviceKind]) -> frozenset[DeviceKind]:
        """The possible kinds of the required products that are not among the shown kinds.

        If MIG devices of a product are shown, its other possible profiles do not count.
        """
        have = {(fold_name(kind.product), bool(kind.profile)) for kind in shown}
        unseen = frozenset[DeviceKind]().union(*(self.unseen(view, product) for product in self.products or ()))
        return frozenset(kind for kind in unseen if (fold_name(kind.product), bool(kind.profile)) not in have)


def necessary_conditions(types: frozenset[str], texts: Sequence[str]) -> NecessaryConditions:
    """The conditions that top-level conjuncts of selectors set for GPUs of some types."""
    if not types or size_of(texts) > MOST_TEXT:
        return NecessaryConditions(types)
    conjuncts = [read_condition(each.text) for text in texts for each in split_conjuncts(text)]
    conditions = [condition for condition in conjuncts if condition is not None]
    found = [(condition.read, values) for condition in conditions if (values := _required_texts(condition)) is not None]
    products = [frozenset(value.replace(" ", "-") for value in values) for read, values in found if read == _PRODUCT]
    profiles = [values for read, values in found if read == _PROFILE]
    memory = min((most for each in conditions if (most := _most_memory(each)) is not None), default=None)
    is_shareable = any(map(_requires_shareable, conditions))
    return NecessaryConditions(types, _common(products), _common(profiles), memory, is_shareable)


def _requires_shareable(condition: Condition) -> bool:
    is_true = condition.operator == "true" or (condition.operator == "==" and condition.values == (True,))
    return is_true and condition.read == Read("allowMultipleAllocations")


def _required_texts(condition: Condition) -> frozenset[str] | None:
    """The texts of which an attribute must be one; None if it is compared otherwise."""
    if condition.operator not in ("==", "in") or condition.value_kind:
        return None
    values = frozenset(value for value in condition.values if isinstance(value, str))
    return values if len(values) == len(set(condition.values)) <= _MOST_NAMED else None


def _most_memory(condition: Condition) -> int | None:
    """The most bytes of memory that a device can have; None if the condition sets no such limit."""
    if condition.read != _MEMORY or condition.operator not in ("==", "<", "<=") or condition.value_kind != "quantity":
        return None
    amount = quantity_or_none(condition.values[0])
    return None if amount is None else max(0, floor(amount))


def _least_memory(kind: DeviceKind) -> int:
    """The bytes that a device of a kind has at least; 0 if its profile does not tell.

    Drivers keep up to some percent of what the name says, which is rounded.
    """
    profile = MIGProfile.parse(kind.profile)
    return 0 if profile is None else max(0, int((profile.memory_gb * Fraction(9, 10) - Fraction(1, 2)) * GIB))


def _common(sets: list[frozenset[str]]) -> frozenset[str] | None:
    if not sets:
        return None
    first, *rest = sets
    for each in rest:
        spelled = {fold_name(value) for value in each}
        first = frozenset(value for value in first if fold_name(value) in spelled)
    return first


def _slice(profile: str, product: str) -> DeviceKind:
    parsed = MIGProfile.parse(profile)
    return DeviceKind(product, profile) if parsed is None else unseen_slice(parsed, product)


_READS = frozenset(
    {Read("attributes", DRIVER, name) for name in ("productName", "profile", "type")}
    | {Read("capacity", DRIVER, name) for name in ("memory", "shares")}
)
"""The fields that distinguish kinds of devices."""
_UNLISTED = KnownClasses((), lambda _name: None)
"""Stands for classes that cannot be listed."""


def classes(view: ClusterView) -> Classes:
    """The DeviceClasses of the cluster, none if they cannot be listed. Use it by `view.derive(classes)`."""
    known = known_classes(view)
    return Classes(known, view.derive(published_devices)) if known.are_listed else Classes(_UNLISTED, UNKNOWN)


class Classes:
    """DeviceClasses, and the devices of each, which are computed when they are first needed."""

    def __init__(self, known: KnownClasses, devices: PublishedDevices | Unknown) -> None:
        """Keep the classes and all devices."""
        self._known = known
        self._devices = devices
        self._of_class: dict[str, Sequence[DeviceGroup]] = {}

    def __contains__(self, name: str) -> bool:
        """True if there is a class of this name."""
        return name in self._known

    def is_missing(self, name: str) -> bool:
        """True if classes can be listed and none has this name."""
        return self._known.are_listed and name not in self._known

    def __iter__(self) -> Iterator[str]:
        """The names of all classes."""
        return iter(self._known)

    def standing_for(self, resource: str) -> tuple[str, ...]:
        """The classes that an extended resource can stand for, if they can have GPUs or are missing.

        Which of several counts can change until a pod is scheduled, so all of them are named.
        """
        return tuple(each for each in self._known.standing_for(resource) if self._known.gpu_types(each))

    def necessary_conditions(self, name: str, texts: Sequence[str] = ()) -> NecessaryConditions:
        """The conditions that devices of a class must meet to match other selectors too."""
        return necessary_conditions(self._known.gpu_types(name, texts), [*self._known.selectors(name), *texts])

    def devices(self, name: str, texts: Sequence[str] = (), effort: Effort | None = None) -> Sequence[DeviceGroup]:
        """The GPUs of a class that match other selectors too, by kind; empty while slices are unknown.

        Selectors that are too much work or do not compile count as matching everything, and so does a class that does
        not exist.

        Args:
            name: of the class.
            texts: the other selectors.
            effort: the work allowed for them.
        """
        if self._devices is UNKNOWN:
            return ()
        known = name if name in self._known else ""  # tenants make up any number of names
        if known not in self._of_class:
            own = [group for group in self._devices.groups if group.first.driver == DRIVER]
            self._of_class[known] = self._devices.divide_or_single(
                _chosen(self._devices, own, self._known.selectors(known), Effort()), _READS
            )
        found = self._of_class[known]
        return (
            self._devices.divide_or_single(_chosen(self._devices, found, texts, effort or Effort()), _READS)
            if texts
            else found
        )


def _chosen(
    known: PublishedDevices, groups: Sequence[DeviceGroup], texts: Sequence[str], effort: Effort
) -> Sequence[DeviceGroup]:
    if size_of(texts) > MOST_TEXT:
        return groups
    compiled = [effort.compile(text) for text in texts]
    selectors = [selector for selector in compiled if not isinstance(selector, CelCompileError)]
    choice = select_devices(known, groups, selectors, effort)
    return choice.matched if choice.complete else groups
