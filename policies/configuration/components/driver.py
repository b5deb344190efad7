"""Drivers that a ClusterPolicy or an NVIDIADriver describes, and the nodes that get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import Section
from policies.fleet.device_plugin import node_workload
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import lookup
from policies.nvidia.driver_versions import DriverVersion
from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.configuration.change import Change

__all__ = ["Driver", "drivers_of", "os_of"]

_DEPLOY = "nvidia.com/gpu.deploy.driver"
_OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
_OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"


class Driver(Section):
    """A driver that the operator deploys."""

    @property
    def is_precompiled(self) -> bool:
        """True if the image contains the kernel modules."""
        return self.flag("usePrecompiled")

    @property
    def is_for_vgpu(self) -> bool:
        """True for a vGPU driver; sites build its image themselves."""
        return self.text("driverType").startswith("vgpu") or "vgpu" in self.text("image").lower()

    @property
    def version(self) -> DriverVersion | None:
        """The version; None if it is missing or invalid."""
        return DriverVersion.parse(self.text("version"))

    def nodes(self) -> Sequence[Object] | Unknown:
        """The GPU nodes that get this driver, without nodes that bring their own or that run virtual machines."""
        nodes = self.change.facts.gpu_nodes()
        if nodes is UNKNOWN:
            return UNKNOWN
        policy = self.change.facts.cluster_policy() if self.change.kind != "ClusterPolicy" else self.change.object
        return [node for node in nodes if _takes_driver(labels_of(node), policy) and self._is_for(node)]

    def known_nodes(self) -> Sequence[Object]:
        """The GPU nodes that get this driver; empty if the nodes are unknown."""
        nodes = self.nodes()
        return () if nodes is UNKNOWN else nodes

    def _is_for(self, node: Object) -> bool:
        if self.steps:
            return True
        if self.change.flag("default"):
            others = self.change.facts.known_objects("NVIDIADriver")
            return not any(
                _selects(lookup(other, ("spec", "nodeSelector")), node)
                for other in others
                if name_of(other) != self.change.name and lookup(other, ("spec", "default")) is not True
            )
        return _selects(self.change.mapping("nodeSelector"), node)


def drivers_of(change: Change) -> Iterator[Driver]:
    """The driver that a change describes, if the operator deploys it."""
    if change.kind == "NVIDIADriver":
        yield Driver(change, ())
    elif (
        change.kind == "ClusterPolicy"
        and change.flag("driver", "enabled", default=True)
        and not change.flag("driver", "useNvidiaDriverCRD")
    ):
        yield Driver(change, ("driver",))


def os_of(node: Object) -> str:
    """A node's operating system as driver tags spell it, `ubuntu22.04`; empty if it is unknown."""
    labels = labels_of(node)
    return labels.get(_OS_ID, "") + labels.get(_OS_VERSION, "")


def _takes_driver(labels: Mapping[str, str], policy: Object | Unknown | None) -> bool:
    return labels.get(_DEPLOY, "true") == "true" and node_workload(labels, policy) == "container"


def _selects(selector: Any, node: Object) -> bool:
    wanted = selector if isinstance(selector, dict) else {}
    labels = labels_of(node)
    return all(labels.get(key) == value for key, value in wanted.items())
