"""State: how the GPUs of a node are cut, configured and handed out; sizes may be estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.fleet.offers.shown import LabelledResource
from policies.kubernetes.names import format_list
from policies.kubernetes.objects import lookup, mapping_at, mappings_at
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.plugin_configs import PluginConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.fleet.offers.hardware import Cut, Hardware
    from policies.kubernetes.objects import Object
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_products import MIGSize

__all__ = [
    "NO_CONFIG",
    "NUMA_NODE",
    "DriverState",
    "MemoryEstimate",
    "NodeState",
    "config_by_labels",
    "estimated_sizes",
    "estimates_clause",
    "possible_hardware",
    "shown_driver",
]


NUMA_NODE = "resource.kubernetes.io/numaNode"


NO_CONFIG = PluginConfig(None)
"""A document that shares nothing."""


@dataclass(frozen=True, slots=True)
class DriverState:
    """The configuration of NVIDIA's DRA driver."""

    gates: frozenset[str] = frozenset()
    """The feature gates that are on: `DynamicMIG`, `ConsumableShares`."""
    shares: str = ""
    """`consumableShares`: a number, `memory` or `unlimited`; empty for whole devices."""
    is_combined: bool = False
    """True if counters and devices share slices, as Kubernetes 1.34 requires."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The configuration of a node's GPUs."""

    cut: Cut
    strategy: str = "none"
    """The MIG strategy: `none`, `single` or `mixed`."""
    config: PluginConfig = NO_CONFIG
    """The document that the device plugin and GPU Feature Discovery read."""
    has_plugin: bool = True
    """True if NVIDIA's device plugin runs on the node."""
    driver: DriverState | None = None
    """NVIDIA's DRA driver; None if it does not run on the node."""


def shown_driver(slices: Sequence[Object]) -> DriverState | None:
    """The driver that publishes the slices of a node, as far as they tell; None without devices."""
    devices = [device for document in slices for device in mappings_at(document, ("spec", "devices"))]
    if not devices:
        return None
    is_combined = any(
        lookup(document, ("spec", "sharedCounters")) and lookup(document, ("spec", "devices")) for document in slices
    )
    gates = set()
    if any("consumesCounters" in device for device in devices):
        gates.add("DynamicMIG")
    if any("ints" in mapping_at(device, ("attributes", NUMA_NODE)) for device in devices):
        gates.add("DRAListTypeAttributes")
    if any(lookup(device, ("attributes", "type", "string")) == "vfio" for device in devices):
        gates.add("PassthroughSupport")
    shared = next((device for device in devices if device.get("allowMultipleAllocations") is True), None)
    if shared is None:
        return DriverState(frozenset(gates), is_combined=is_combined)
    default = lookup(shared, ("capacity", "memory", "requestPolicy", "default"))
    shares = lookup(shared, ("capacity", "shares", "value")) or ("unlimited" if default == "0" else "memory")
    return DriverState(frozenset({*gates, "ConsumableShares"}), str(shares), is_combined)


def config_by_labels(labels: Mapping[str, str]) -> PluginConfig:
    """A document that shares GPUs as the labels of a node say."""
    shown = LabelledResource(GPU_RESOURCE, labels)
    kind = {"time-slicing": "timeSlicing", "mps": "mps"}.get(shown.strategy)
    if kind is None or shown.replicas is None:
        return NO_CONFIG
    shared = {"renameByDefault": not shown.product.shared, "failRequestsGreaterThanOne": False}
    resources = [{"name": GPU_RESOURCE, "replicas": shown.replicas}]
    return PluginConfig({"sharing": {kind: {**shared, "resources": resources}}})


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The memory of MIG devices of one profile, in MiB."""

    profile: str
    memory: int
    least: int
    """The least that is possible."""
    most: int
    """The most that is possible."""

    @classmethod
    def of(cls, sizes: Mapping[MIGProfile, MIGSize]) -> tuple[MemoryEstimate, ...]:
        """The estimates among sizes."""
        return tuple(
            cls(str(profile), size.memory, *size.bounds)
            for profile, size in sizes.items()
            if size.memory is not None and size.bounds is not None
        )

    def __str__(self) -> str:
        """`MIG 1g.10gb (8.6 to 10 GiB)`."""
        least, most = (f"{amount / 1024:.1f}".removesuffix(".0") for amount in (self.least, self.most))
        return f"MIG {self.profile} ({least} to {most} GiB)"


def estimated_sizes(hardware: Hardware, state: NodeState) -> Mapping[MIGProfile, MIGSize]:
    """The MIG devices of a state whose memory is estimated, because no GPU shows it.

    With DynamicMIG that can be every partition of a GPU.
    """
    profiles = set(state.cut.devices)
    if state.driver is not None and "DynamicMIG" in state.driver.gates and hardware.mig is not None:
        profiles |= {match.profile for match in hardware.mig.geometries[0].matches}
    sizes = {profile: hardware.size(profile) for profile in sorted(profiles)}
    return {profile: size for profile, size in sizes.items() if size.bounds is not None}


def possible_hardware(hardware: Hardware, sizes: Mapping[MIGProfile, MIGSize]) -> tuple[Hardware, ...]:
    """The hardware with the least, and with the most memory that is possible; nothing without estimates."""
    ends = ({profile: size.bounds[end] for profile, size in sizes.items() if size.bounds} for end in (0, 1))
    return tuple(hardware.with_memory(memory) for memory in ends) if sizes else ()


def estimates_clause(estimates: Iterable[MemoryEstimate]) -> str:
    """What is estimated; empty if nothing is."""
    found = sorted(set(map(str, estimates)))
    return f"the memory of {format_list(found, 3)} is estimated" if found else ""
