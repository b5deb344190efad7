"""The components that the GPU Operator deploys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object


_OFF_UNLESS_ENABLED = (
    *("ccManager", "gdrcopy", "gds", "kataSandboxDevicePlugin", "nodeStatusExporter", "sandboxDevicePlugin"),
    *("vfioManager", "vgpuDeviceManager", "vgpuManager"),
)
"""Components that are deployed only where `enabled` is true; the others unless it is false."""

_OF_THE_DRIVER = frozenset({"driver", "gds", "gdrcopy"})
_OF_SANDBOXES = {
    **dict.fromkeys(("vfioManager", "vgpuDeviceManager", "vgpuManager"), ("kubevirt", "kata")),
    "sandboxDevicePlugin": ("kubevirt",),
    **dict.fromkeys(("ccManager", "kataSandboxDevicePlugin"), ("kata",)),
}
"""Components that are deployed with sandbox workloads only, and the modes of these."""
_SANDBOX_VALIDATIONS = ("vfioPCI", "vgpuManager", "vgpuDevices", "ccManager")


def is_deployed(document: Object, *steps: str) -> bool:
    """True if the operator deploys a component: it is enabled, and so is what it is a part of.

    Source: github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled, step.
    """

    def flag(*field: str, default: bool = False) -> bool:
        value = lookup(document, ("spec", *field))
        return value if isinstance(value, bool) else default

    if not steps:
        return True
    name = steps[0]
    if document.get("kind") == "ClusterPolicy":
        is_replaced = flag("driver", "useNvidiaDriverCRD")
        has_driver = flag("driver", "enabled", default=True) and not is_replaced
        if (name in _OF_THE_DRIVER and not has_driver) or (name == "vgpuManager" and is_replaced):
            return False
        is_validation = name == "validator" and steps[1:2] and steps[1] in _SANDBOX_VALIDATIONS
        if (name in _OF_SANDBOXES or is_validation) and not flag("sandboxWorkloads", "enabled"):
            return False
        mode = lookup(document, ("spec", "sandboxWorkloads", "mode")) or "kubevirt"
        if mode not in _OF_SANDBOXES.get(name, (mode,)):
            return False
    return flag(name, "enabled", default=name not in _OFF_UNLESS_ENABLED) and all(
        flag(*steps[:depth], "enabled", default=True) for depth in range(2, len(steps) + 1)
    )
