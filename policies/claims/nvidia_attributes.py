"""The attributes that NVIDIA's drivers publish, by kind of device and release, without ResourceSlices.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/{deviceinfo,mig,partitions}.go and
cmd/compute-domain-kubelet-plugin/deviceinfo.go, at v25.3.0, v25.8.0, v25.12.0, v0.4.0, v0.4.1 and on main.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.deviceclasses import SHIPPED_TYPES
from policies.nvidia.identifiers import COMPUTE_DOMAIN_DRIVER, DRIVER
from policies.nvidia.releases import NVIDIAFeature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.claims.absence import Place


STANDARD = "resource.kubernetes.io"
DRIVERS = (DRIVER, COMPUTE_DOMAIN_DRIVER)

_COMMON = (
    *("type", "productName", "brand", "architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion"),
)
_ENGINES = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")
_BUS_ID: Place = ("attributes", STANDARD, "pciBusID")
_MEASURED: Mapping[Place, str] = {
    ("attributes", STANDARD, "pcieRoot"): "where the node tells it",
    ("attributes", STANDARD, "numaNode"): "from release 0.5.0 on, and where the node tells it",
}
_ADDRESSING: Mapping[Place, str] = {("attributes", DRIVER, "addressingMode"): "for GPUs that tell it"}
_PARTITIONS: Mapping[Place, str] = {
    ("attributes", DRIVER, name): "with its feature gate FabricManagerPartitioning"
    for name in ("gpuModuleID", "partition1", "partition2", "partition4", "partition8")
}
_SHARES: Mapping[Place, str] = {("capacity", DRIVER, "shares"): "with its feature gate ConsumableShares"}


@dataclass(frozen=True, slots=True)
class DeviceSchema:
    """The attributes and capacities that devices of one type of a driver of NVIDIA's have."""

    driver: str
    type: str
    """The value of its attribute `type`."""
    always: frozenset[Place]
    sometimes: Mapping[Place, str]
    """Places that some devices of the kind have, and when."""

    @property
    def known(self) -> Mapping[Place, str]:
        """Places that every such device has, with the value."""
        return {("driver",): self.driver, ("attributes", self.driver, "type"): self.type}

    @property
    def domains(self) -> frozenset[str]:
        """The domains that it has attributes in."""
        return frozenset({domain for _, domain, _ in (*self.always, *self.sometimes)})


def _places(part: str, driver: str, *names: str) -> frozenset[Place]:
    return frozenset((part, driver, name) for name in names)


KINDS = (
    DeviceSchema(
        DRIVER,
        "gpu",
        # Only GPUs that share the memory of the CPU have no memory of their own to publish.
        _places("attributes", DRIVER, *_COMMON, "uuid") | _places("capacity", DRIVER, "memory") | {_BUS_ID},
        {
            **_MEASURED,
            **_ADDRESSING,
            **_PARTITIONS,
            **_SHARES,
            **dict.fromkeys(_places("capacity", DRIVER, *_ENGINES), "with its feature gate DynamicMIG"),
        },
    ),
    DeviceSchema(
        DRIVER,
        "mig",
        _places("attributes", DRIVER, *_COMMON, "parentUUID", "profile")
        | _places("capacity", DRIVER, *_ENGINES, "memory")
        | {_BUS_ID},
        {
            **_MEASURED,
            **_ADDRESSING,
            **_SHARES,
            ("attributes", DRIVER, "uuid"): "for slices that were cut beforehand",
            **{("capacity", DRIVER, f"memorySlice{number}"): "for slices that lie there" for number in range(8)},
        },
    ),
    DeviceSchema(
        DRIVER,
        "vfio",
        _places("attributes", DRIVER, "type", "uuid", "deviceID", "vendorID", "productName")
        | _places("capacity", DRIVER, "addressableMemory")
        | {_BUS_ID},
        {**_MEASURED, **_PARTITIONS, ("attributes", DRIVER, "iommuFDEnabled"): "from release 0.4.0 on"},
    ),
    DeviceSchema(COMPUTE_DOMAIN_DRIVER, "channel", _places("attributes", COMPUTE_DOMAIN_DRIVER, "type", "id"), {}),
    DeviceSchema(COMPUTE_DOMAIN_DRIVER, "daemon", _places("attributes", COMPUTE_DOMAIN_DRIVER, "type", "id"), {}),
)


class Removal(NamedTuple):
    """An attribute that the driver does not publish any more."""

    by: NVIDIAFeature
    """The change in the driver that removed it."""
    remedy: str


_NUMBER = f'request a count of devices, or select one by device.attributes["{DRIVER}"].uuid'
_PARENT = f'write device.attributes["{DRIVER}"].parentUUID'
_BUS = f'write device.attributes["{STANDARD}"].?pciBusID.orValue("")'
_NUMA = f'write device.attributes["{STANDARD}"].?numaNode.orValue(-1)'
REMOVED: Mapping[Place, Removal] = {
    ("attributes", DRIVER, "index"): Removal(NVIDIAFeature.NoNumberAttributes, _NUMBER),
    ("attributes", DRIVER, "minor"): Removal(NVIDIAFeature.NoNumberAttributes, _NUMBER),
    ("attributes", DRIVER, "parentIndex"): Removal(NVIDIAFeature.NoNumberAttributes, _PARENT),
    ("attributes", DRIVER, "pcieBusID"): Removal(NVIDIAFeature.BusIDAttribute, _BUS),
    ("attributes", DRIVER, "numa"): Removal(NVIDIAFeature.NUMANodeAttribute, _NUMA),
}
ADDED: Mapping[Place, NVIDIAFeature] = {
    ("attributes", DRIVER, "addressingMode"): NVIDIAFeature.AddressingMode,
    _BUS_ID: NVIDIAFeature.BusIDAttribute,
    ("attributes", DRIVER, "iommuFDEnabled"): NVIDIAFeature.VfioIOMMU,
    ("attributes", STANDARD, "numaNode"): NVIDIAFeature.NUMANodeAttribute,
    **dict.fromkeys(_PARTITIONS, NVIDIAFeature.FabricManagerPartitioning),
    **dict.fromkeys(_SHARES, NVIDIAFeature.ConsumableShares),
}
"""The places that came later than the first releases."""


def shipped_kinds(name: str) -> tuple[DeviceSchema, ...]:
    """The kind of device that one of NVIDIA's own classes selects, by its name; empty for other classes."""
    return tuple(kind for kind in KINDS if kind.type == SHIPPED_TYPES.get(name))


def class_with(place: Place) -> str | None:
    """NVIDIA's own class whose devices all have an attribute or capacity, if there is just one."""
    found = [name for name in SHIPPED_TYPES if any(place in kind.always for kind in shipped_kinds(name))]
    return found[0] if len(found) == 1 else None


def is_published(place: Place, release: str) -> bool:
    """True if a release of the driver knows an attribute, by the history of attributes."""
    if (removal := REMOVED.get(place)) is not None:
        return removal.by.is_in(release) is False
    return place not in ADDED or ADDED[place].is_in(release) is not False
