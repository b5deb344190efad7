"""Driver: what of `spec.driver` has no effect, and what cannot go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.components.driver import drivers_of
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_VGPU = "build the vGPU driver, with usePrecompiled: false and its full version"
_IMAGE = ("version", "repository", "image")


@CLUSTER_POLICY.rule(
    "GA118",
    "A precompiled driver must not have settings that would build or change it",
    default=Severity.DENY,
    remedy="set usePrecompiled: false",
    source="docs.nvidia.com GPU Operator, precompiled driver containers, limitations; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go transformDriverContainer",
    rows=("C-03", "C-04", "C-05"),
)
def precompiled_limits(change: Change) -> Iterator[Problem]:
    """A precompiled driver has one kernel module, built before, and nothing beside it.

    With GPUDirect Storage or GDRCopy the operator stops deploying the driver at all; vGPU drivers are never published
    precompiled. Package repositories, certificates and the module type concern a build that does not happen.
    """
    for driver in drivers_of(change):
        if not driver.precompiled:
            continue
        for name, told in (("gds", "GPUDirect Storage driver (nvidia-fs)"), ("gdrcopy", "GDRCopy")):
            if change.flag(name, "enabled"):
                text = (
                    f"cannot be with driver.usePrecompiled; the operator would report: {told} is not supported along "
                    "with pre-compiled NVIDIA drivers"
                )
                yield problem(change.at(name, "enabled"), text, "write enabled: false, or driver.usePrecompiled: false")
        licensed = next((name for name in ("secretName", "configMapName") if driver.text("licensingConfig", name)), "")
        if licensed:
            text = "is for vGPU drivers, and there are no precompiled ones"
            yield problem(driver.at("licensingConfig", licensed), text, _VGPU)
        if driver.for_vgpu:
            text = f'"{driver.text("image")}" is a vGPU driver, and there are no precompiled ones'
            yield problem(driver.at("image"), text, _VGPU)
        for steps in (("repoConfig", "configMapName"), ("certConfig", "name"), ("secretEnv",)):
            if driver.text(*steps):
                text = "has no effect with usePrecompiled, as nothing is built on the node"
                yield problem(driver.at(*steps), text, "remove it", severity=Severity.WARN)
        if driver.text("kernelModuleType") not in ("", "auto"):
            text = "cannot change the module that a precompiled driver comes with"
            yield problem(driver.at("kernelModuleType"), text, "write kernelModuleType: auto", severity=Severity.WARN)


@CLUSTER_POLICY.rule(
    "GA122",
    "A driver that is not deployed must not have settings",
    default=Severity.WARN,
    remedy="remove it, or set driver.enabled: true",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled; "
    "controllers/object_controls.go TransformDevicePlugin",
    rows=("C-14", "C-15"),
)
def disabled_driver(change: Change) -> Iterator[Problem]:
    """With `driver.enabled: false` the operator uses the driver of the host and reads nothing else of `spec.driver`.

    GPUDirect Storage and GDRCopy are containers of the driver's pods. Without them nothing is installed, while the
    device plugin is told that it is, and pods look for devices that do not exist.
    """
    if change.deleted or change.flag("driver", "enabled", default=True):
        return
    for name in ("gds", "gdrcopy"):
        if change.flag(name, "enabled"):
            text = (
                "is installed by the driver's pods, which driver.enabled: false leaves out, while the device plugin is "
                "told that it is there"
            )
            yield problem(
                change.at(name, "enabled"),
                text,
                "write enabled: false, or set driver.enabled: true",
                severity=Severity.DENY,
            )
    if change.flag("driver", "usePrecompiled"):
        yield problem(change.at("driver", "usePrecompiled"), "has no effect with driver.enabled: false")
    if change.text("driver", "kernelModuleType") not in ("", "auto"):
        yield problem(change.at("driver", "kernelModuleType"), "has no effect with driver.enabled: false")
    if change.text("driver", "licensingConfig", "secretName"):
        yield problem(change.at("driver", "licensingConfig", "secretName"), "has no effect with driver.enabled: false")
    if change.old is not None:
        for name in _IMAGE:
            now = change.text("driver", name)
            if now and now != change.before("driver", name):
                text = f'is changed to "{now}", which has no effect with driver.enabled: false'
                yield problem(change.at("driver", name), text)


@CLUSTER_POLICY.rule(
    "GA123",
    "A ClusterPolicy must not configure a driver that NVIDIADrivers replace",
    default=Severity.WARN,
    remedy="set it in an NVIDIADriver, and remove it here",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go; docs.nvidia.com GPU Operator, NVIDIA GPU "
    "driver custom resource definition",
    rows=("C-16",),
)
def replaced_driver(change: Change) -> Iterator[Problem]:
    """With `useNvidiaDriverCRD: true` the operator deploys what NVIDIADrivers describe, and nothing of `spec.driver`.

    A new version written here upgrades no node, and nothing says so.
    """
    if change.deleted or not change.flag("driver", "useNvidiaDriverCRD"):
        return
    for name in _IMAGE:
        if change.text("driver", name):
            yield problem(change.at("driver", name), _replaced(change.text("driver", name)))
    if change.flag("driver", "usePrecompiled"):
        yield problem(change.at("driver", "usePrecompiled"), _replaced(value=True))
    if change.text("driver", "kernelModuleType") not in ("", "auto"):
        yield problem(change.at("driver", "kernelModuleType"), _replaced(change.text("driver", "kernelModuleType")))


def _replaced(value: Any) -> str:
    shown = "true" if value is True else f'"{value}"'
    return f"is {shown}, and has no effect with useNvidiaDriverCRD: true"
