"""The table of what releases of NVIDIA's DRA driver, GPU Operator and device plugin do differently.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu at v25.3.2, v25.8.0, v25.12.0, v0.4.0, v0.4.1 and on main (0.5, August
2026), github.com/NVIDIA/gpu-operator from v24.3 to v26.7.0, and github.com/NVIDIA/k8s-device-plugin v0.19.3 and v0.20.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum, unique
from typing import TYPE_CHECKING, Any

from policies.kubernetes.versions import Stage
from policies.kubernetes.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

NEWEST_DRIVER = "0.5"
"""The newest release of the DRA driver that is known here."""


class Component(StrEnum):
    """A component of NVIDIA whose releases differ."""

    DRA_DRIVER = "DRA driver"
    OPERATOR = "GPU Operator"
    DEVICE_PLUGIN = "device plugin"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The beginning of one feature."""

    since: str
    """The first release that has it."""
    reading: str
    """The difference in what gpu-admission reads."""
    stage: Stage = Stage.ALWAYS
    """The stage of its feature gate in all known releases; `ALWAYS` without a gate."""
    what: str = ""
    """The behaviour, if no feature gate has this name."""
    component: Component = Component.DRA_DRIVER
    source: str = ""
    """The file of the component's repository, if it is not pkg/featuregates/featuregates.go."""


_ALPHA, _BETA = Stage.ALPHA, Stage.BETA
_NAMES = "only its name (GA199)"
_PLUGIN = "cmd/gpu-kubelet-plugin/"
_CONFIGS = "api/nvidia.com/resource/v1beta1/"


@unique
class NVIDIAFeature(Enum):
    """A feature gate of NVIDIA's DRA driver, by its name there, or a behaviour without one."""

    TimeSlicingSettings = Row("25.8.0", "the strategy TimeSlicing in configs (GA244)", _ALPHA)
    MPSSupport = Row("25.8.0", "the strategy MPS in configs (GA244)", _ALPHA)
    IMEXDaemonsWithDNSNames = Row("25.8.0", "`numNodes` of ComputeDomains (GA257)", _BETA)
    PassthroughSupport = Row("25.12.0", "VFIO devices (GA244, GA248)", _ALPHA)
    DynamicMIG = Row("25.12.0", "MIG devices that are cut for a claim; excludes MPS", _ALPHA)
    NVMLDeviceHealthCheck = Row("25.12.0", "gates that exclude each other (GA199)", _ALPHA)
    ComputeDomainCliques = Row("25.12.0", "gates that need each other (GA199)", _BETA)
    CrashOnNVLinkFabricErrors = Row("25.12.0", _NAMES, _BETA)
    DeviceMetadata = Row("0.4.0", "gates that need each other (GA199)", _ALPHA)
    DRAListTypeAttributes = Row("0.5.0", "attributes that are lists: slices, and those that `plan` predicts", _ALPHA)
    FabricManagerPartitioning = Row("0.5.0", "attributes `gpuModuleID` and `partition1` to `partition8`", _ALPHA)
    HostManagedIMEXDaemon = Row("0.5.0", "IMEX_MODE needs it (GA199); `numNodes` of ComputeDomains (GA257)", _ALPHA)
    ConsumableShares = Row("0.5.0", "capacity `shares`; excludes MPS, and needs CONSUMABLE_SHARES (GA199)", _ALPHA)
    AllAlpha = Row("25.8.0", "the default of all alpha gates (GA199)", _ALPHA)
    AllBeta = Row("25.8.0", "the default of all beta gates (GA199)", Stage.BETA_OFF)
    ContextualLogging = Row("25.8.0", f"{_NAMES}; for logs", _BETA)
    LoggingAlphaOptions = Row("25.8.0", f"{_NAMES}; for alpha options of logs", _ALPHA)
    LoggingBetaOptions = Row("25.8.0", f"{_NAMES}; for beta options of logs", _BETA)

    KnownDriver = Row(
        "25.8.0", "`preflight` warns of older ones", what="claims as conversion makes them", source=_PLUGIN
    )
    NoNumberAttributes = Row(
        "25.8.0",
        "selectors that read them (GA223)",
        what="devices have no attributes `index`, `minor` and `parentIndex`",
        source=_PLUGIN + "deviceinfo.go",
    )
    BusIDAttribute = Row(
        "25.12.0",
        "selectors that read `pcieBusID` (GA223)",
        what="devices have `resource.kubernetes.io/pciBusID` in place of `pcieBusID`",
        source=_PLUGIN + "deviceinfo.go",
    )
    AddressingMode = Row(
        "25.12.0",
        "selectors that read it (GA223)",
        what="devices have the attribute `addressingMode`",
        source=_PLUGIN + "deviceinfo.go",
    )
    VfioDeviceConfig = Row(
        "25.12.0",
        "configs of that kind (GA240)",
        what="the kind VfioDeviceConfig",
        source=_CONFIGS + "vfiodeviceconfig.go",
    )
    VfioIOMMU = Row(
        "0.4.0",
        "`iommu` of configs (GA241), selectors that read the attribute (GA223)",
        what="`iommu` of a VfioDeviceConfig, the attribute `iommuFDEnabled`",
        source=_CONFIGS + "iommu.go",
    )
    NUMANodeAttribute = Row(
        "0.5.0",
        "selectors that read `numa` (GA223)",
        what="devices have `resource.kubernetes.io/numaNode` in place of `numa`",
        source=_PLUGIN + "deviceinfo.go",
    )
    MultiUserMPS = Row(
        "0.5.0",
        "`multiUser` of configs (GA241)",
        what="`sharing.mpsConfig.multiUser` of a config",
        source=_CONFIGS + "sharing.go",
    )
    KindsOfOtherDrivers = Row(
        "0.5.0",
        "such configs, which had failed (GA240)",
        what="a config of another driver's kind is ignored if it names no request",
        source=_PLUGIN + "device_state.go",
    )
    OneVfioGroup = Row(
        "0.5.0",
        "claims with several (GA248)",
        what="a claim with several configs for VFIO devices is refused",
        source=_PLUGIN + "device_state.go",
    )

    NewDriverManager = Row(
        "24.3",
        "older versions of `driver.manager` (GA127)",
        what="needs a driver manager of v0.6.4 or newer",
        component=Component.OPERATOR,
        source="deployments/gpu-operator/values.yaml",
    )
    OptionalDrain = Row(
        "26.7",
        "upgrade policies without `drain`, which crash older operators (GA173)",
        what="`upgradePolicy.drain` may be missing",
        component=Component.OPERATOR,
        source="controllers/upgrade_controller.go",
    )
    GPUClusters = Row(
        "26.7",
        "`cutover` upgrades older operators first",
        what="GPUClusters are served",
        component=Component.OPERATOR,
        source="config/crd/bases/nvidia.com_gpuclusters.yaml",
    )

    OptionalLimitOfMPS = Row(
        "0.20",
        "`failRequestsGreaterThanOne: false`, which older ones do not follow (GA141)",
        what="with MPS a container can request several shares",
        component=Component.DEVICE_PLUGIN,
        source="api/config/v1/config.go",
    )
    AllocationPolicy = Row(
        "0.20",
        "the field, which older ones ignore (GA141)",
        what="`flags.plugin.sharedDevicesAllocationPolicy`",
        component=Component.DEVICE_PLUGIN,
        source="api/config/v1/flags.go",
    )
    OwnedLabels = Row(
        "0.19",
        "labels of nodes in `plan` when GPU Feature Discovery is removed",
        what="the labels of GPU Feature Discovery are removed with it",
        component=Component.DEVICE_PLUGIN,
        source="internal/lm/output.go",
    )

    @property
    def is_gate(self) -> bool:
        """True if the DRA driver has a feature gate of this name."""
        return self.value.stage is not Stage.ALWAYS

    @property
    def is_on_by_default(self) -> bool:
        """True if releases that have it have it on by default."""
        return self.value.stage.is_on

    def is_on(self, gates: Mapping[str, Any]) -> bool:
        """True if a DRA driver with these values of feature gates has this one on.

        All gates that are off by default are alpha, and all that are on are beta.
        """
        stage = NVIDIAFeature.AllBeta if self.is_on_by_default else NVIDIAFeature.AllAlpha
        return gates.get(self.name, gates.get(stage.name, self.is_on_by_default)) is True

    @property
    def since(self) -> str:
        """The first release that has it."""
        return self.value.since

    def is_in(self, release: str | Unknown) -> bool | Unknown:
        """True if a release has it, on or off; unknown if the release is, or cannot be read."""
        order = None if release is UNKNOWN else _order(release, self.value.component)
        since = _order(self.value.since, self.value.component)
        return UNKNOWN if order is None or since is None else order >= since


DRIVER_GATES = sorted(each.name for each in NVIDIAFeature if each.is_gate)
"""The names of the DRA driver's feature gates."""

_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,6})")
_FIRST_YEAR = 24
_RENUMBERED = 4


def _order(release: str, component: Component) -> tuple[int, int, int] | None:
    """A key to sort releases by; None if it cannot be read. After 25.12 of the DRA driver came 0.4."""
    match = _RELEASE.match(release)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    if component is not Component.DRA_DRIVER or major >= _FIRST_YEAR:
        return 1, major, minor
    return (0 if major == 0 and minor < _RENUMBERED else 2), major, minor
