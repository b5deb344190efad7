"""Known classes: the DeviceClasses of a cluster, the types of their devices, their extended resources."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Literal

from policies.devices.deviceclasses import SHIPPED_TYPES, extended_resource_name, newest_first, selector_texts
from policies.devices.selected_types import selected_types
from policies.kubernetes.objects import name_of
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.mig import IMPLICIT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.kubernetes.objects import Object


DeviceType = Literal["gpu", "mig"]

GPU_TYPES = frozenset({"gpu", "mig", "vfio"})
"""The types of devices that NVIDIA's GPU driver publishes.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go.
"""


def known_classes(view: ClusterView) -> KnownClasses:
    """The DeviceClasses of the cluster; while they cannot be listed, those that the view finds by name."""
    listed = view.derive(_listed_classes)
    return KnownClasses((), partial(view.get, "DeviceClass")) if listed is UNKNOWN else listed


def _listed_classes(view: ClusterView) -> KnownClasses | Unknown:
    listed = view.list("DeviceClass")
    return UNKNOWN if listed is UNKNOWN else KnownClasses(listed)


class KnownClasses:
    """DeviceClasses by name. What a class selects is computed when it is first needed."""

    def __init__(self, listed: Sequence[Object], find: Callable[[str], Object | Unknown | None] | None = None) -> None:
        """Keep all classes of the cluster, or a function that finds one by name if they cannot be listed."""
        self._find = find
        self._by_name: dict[str, Object] = {}
        self._by_resource: defaultdict[str, list[str]] = defaultdict(list)
        self._types: dict[str, frozenset[str] | None] = {}
        for each in newest_first(listed):
            self._by_name[name_of(each)] = each
            resource = extended_resource_name(each)
            if resource is not None:
                self._by_resource[resource].append(name_of(each))

    @property
    def are_listed(self) -> bool:
        """True if these are all classes of the cluster."""
        return self._find is None

    def __contains__(self, name: str) -> bool:
        """True if there is a class of this name."""
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names of all listed classes."""
        return iter(self._by_name)

    def get(self, name: str) -> Object | None:
        """A class; None if it is missing or unknown."""
        if self._find is None:
            return self._by_name.get(name)
        found = self._find(name)
        return found if isinstance(found, dict) else None

    @property
    def extended_resources(self) -> frozenset[str]:
        """The extended resources that listed classes stand for by `extendedResourceName`."""
        return frozenset(self._by_resource)

    def standing_for(self, resource: str) -> tuple[str, ...]:
        """The classes that an extended resource can stand for; the scheduler takes the first.

        An implicit name stands for one class, which may be missing. Of several classes with one `extendedResourceName`
        the newest counts (`newest_first`). Which one that is can change before a pod is scheduled.
        """
        if resource.startswith(IMPLICIT_PREFIX):
            return (resource.removeprefix(IMPLICIT_PREFIX),)
        return tuple(self._by_resource.get(resource, ()))

    def selectors(self, name: str) -> tuple[str, ...]:
        """The CEL expressions of a class; empty if it is missing or they cannot be read."""
        found = self.get(name)
        return () if found is None else selector_texts(found) or ()

    def types(self, name: str, selectors: Sequence[str] = ()) -> frozenset[str] | None:
        """The types of devices that match a class and other selectors; None if an unknown class decides it.

        Args:
            name: of the class.
            selectors: CEL expressions of a request for the class. If they exclude every GPU, the class need not be known.
        """
        types = self._types_of(name)
        if not selectors:
            return types
        own = selected_types(selectors)
        if types is not None:
            return own & types
        return own if own.isdisjoint(GPU_TYPES) or own <= GPU_TYPES else None

    def gpu_types(self, name: str, selectors: Sequence[str] = ()) -> frozenset[str]:
        """The types of GPUs that can match a class and other selectors; an unknown class excludes no type."""
        types = self.types(name, selectors)
        return (selected_types(selectors) if types is None else types) & GPU_TYPES

    def device_type(self, name: str) -> DeviceType | None:
        """The type of a class whose devices are all whole GPUs or all MIG devices; None for every other class."""
        return _device_type(self.types(name))

    def probable_type(self, name: str) -> DeviceType | None:
        """The same, if a class that is unknown because classes cannot be listed selects what its name says."""
        types = self.types(name)
        if types is None and not self.are_listed and name in SHIPPED_TYPES:
            types = frozenset({SHIPPED_TYPES[name]})
        return _device_type(types)

    def _types_of(self, name: str) -> frozenset[str] | None:
        if name not in self._types:
            found = self.get(name)
            texts = None if found is None else selector_texts(found)
            types = None if texts is None else selected_types(texts)
            if name not in self._by_name:  # tenants make up any number of names
                return types
            self._types[name] = types
        return self._types[name]


def has_nvidia_class_name(name: str) -> bool:
    """True if a DeviceClass has a name that NVIDIA's GPU driver ships or documents.

    This is a guess about a class that cannot be seen: any driver's class can have such a name.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm, demo/specs/extended-resources
    (`gpu.nvidia.com`, `mig.nvidia.com`, `vfio.gpu.nvidia.com`, `mig-1g-12gb.gpu.nvidia.com`).
    """
    return name in ("gpu.nvidia.com", "mig.nvidia.com") or name.endswith(".gpu.nvidia.com")


def _device_type(types: frozenset[str] | None) -> DeviceType | None:
    match tuple(types or ()):
        case ("gpu",):
            return "gpu"
        case ("mig",):
            return "mig"
    return None
