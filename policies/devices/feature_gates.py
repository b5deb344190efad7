"""Feature gates of DRA in a cluster, by its version and by the fields of stored objects.

The API server drops the fields of a gate that is off before it stores an object, so a stored field proves that the gate is on.

Source: k8s.io/kubernetes pkg/registry/resource/resourceslice/strategy.go and deviceclass/strategy.go, dropDisabledFields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.devices.allocation.reading import ON_SINCE
from policies.devices.deviceclasses import extended_resource_name
from policies.kubernetes.objects import mappings_at
from policies.kubernetes.resourceslices import device_fields
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown

__all__ = ["offers", "proven_gates", "stores_counters_with_devices"]

_PARTITIONABLE = "DRAPartitionableDevices"
_LISTS = "DRAListTypeAttributes"
_DEVICE_FIELDS = {
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "bindingConditions": "DRADeviceBindingConditions",
    "consumesCounters": _PARTITIONABLE,
    "taints": "DRADeviceTaints",
}
"""The gate of each field of a device."""
_LIST_VALUES = frozenset({"bools", "ints", "strings", "versions"})
_COUNTERS_APART_SINCE = (1, 35)
"""The version that refuses ResourceSlices with both counters and devices.

Source: k8s.io/kubernetes pkg/apis/resource/validation/validation.go.
"""


def offers(view: ClusterView, gate: str) -> bool | Unknown:
    """True if a feature gate of DRA is on: by default in this version, or proven by a stored object."""
    version, since = view.server_version(), ON_SINCE.get(gate)
    if since is not None and version is not UNKNOWN and version >= since:
        return True
    return True if gate in view.derive(proven_gates) else UNKNOWN if version is UNKNOWN else False


def stores_counters_with_devices(view: ClusterView) -> bool:
    """True if a ResourceSlice may have both counters and devices, as in Kubernetes 1.34.

    An unknown version may be that one.
    """
    version = view.server_version()
    return version is UNKNOWN or version < _COUNTERS_APART_SINCE


def proven_gates(view: ClusterView) -> frozenset[str]:
    """The gates that stored objects prove; call it as `view.derive(proven_gates)`."""
    by_kind = view.derive_each("ResourceSlice", _gates_of_slice), view.derive_each("DeviceClass", _gates_of_class)
    return frozenset[str]().union(*(gates for found in by_kind if found is not UNKNOWN for gates in found))


def _gates_of_slice(document: Object) -> frozenset[str]:
    spec = document.get("spec")
    has_parts = isinstance(spec, dict) and (spec.get("sharedCounters") or spec.get("perDeviceNodeSelection"))
    gates = {_PARTITIONABLE} if has_parts else set[str]()
    for device in mappings_at(document, ("spec", "devices")):
        fields = device_fields(device)
        gates.update(gate for field, gate in _DEVICE_FIELDS.items() if fields.get(field))
        attributes = fields.get("attributes")
        values = attributes.values() if isinstance(attributes, dict) else ()
        if any(isinstance(value, dict) and not _LIST_VALUES.isdisjoint(value) for value in values):
            gates.add(_LISTS)
    return frozenset(gates)


def _gates_of_class(document: Object) -> frozenset[str]:
    return frozenset({"DRAExtendedResource"} if extended_resource_name(document) else ())
