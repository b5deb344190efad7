"""Classes: the devices that DeviceClasses and selectors choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel import CelCompileError, Read
from policies.devices.effort import MOST_TEXT, Effort, select_devices, size_of
from policies.devices.published_devices import published_devices
from policies.fleet.known_classes import KnownClasses, known_classes
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import DRIVER
from policies.quota.demands.necessary_conditions import NecessaryConditions, necessary_conditions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.devices.published_devices import DeviceGroup, PublishedDevices

__all__ = ["Classes", "classes"]


_READS = frozenset(
    {Read("attributes", DRIVER, name) for name in ("productName", "profile", "type")}
    | {Read("capacity", DRIVER, name) for name in ("memory", "shares")}
)
"""What distinguishes kinds of devices."""
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
        """What devices of a class that match other selectors too must be."""
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
