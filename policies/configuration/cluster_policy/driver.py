"""The driver of a ClusterPolicy: settings without effect, probes, the driver manager."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.components.driver import Driver, drivers_of
from policies.decision import Severity
from policies.kubernetes.paths import lookup

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


_PROBE_FIELDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_BUILD_SECONDS = 600
_MANAGER = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})")
_OLDEST_MANAGER = (0, 6, 4)


@CLUSTER_POLICY.rule(
    "GA124",
    "The driver must have its startup probe only, with enough time to build",
    default=Severity.DENY,
    remedy="remove it; the driver's container has only a startupProbe",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go setContainerProbe; "
    "assets/state-driver/0500_daemonset.yaml; k8s.io/kubernetes pkg/apis/core/validation",
    rows=("C-17", "C-18", "C-19"),
)
def probes(change: Change) -> Iterator[Problem]:
    """The driver's container has a startup probe only; the operator writes the others into nothing and crashes.

    It crashes again on each restart, so nothing is reconciled any more. A startup probe that gives up before the kernel
    modules are compiled has the kubelet kill the container in the middle, over and over.
    """
    for driver in drivers_of(change):
        for probe in ("livenessProbe", "readinessProbe"):
            if any(_number(driver, probe, field) for field in _PROBE_FIELDS):
                text = (
                    "makes the operator crash on every reconciliation: the driver's container has no such probe to set"
                )
                yield problem(driver.at(probe), text)
        delay, successes = (
            _number(driver, "startupProbe", name) for name in ("initialDelaySeconds", "successThreshold")
        )
        if delay < 0:
            text = f"is {delay}; Kubernetes would report: must be greater than or equal to 0"
            path = driver.at("startupProbe", "initialDelaySeconds")
            yield problem(path, text, "write initialDelaySeconds: 60")
        if successes > 1:
            text = f"is {successes}; Kubernetes would report: must be 1"
            yield problem(driver.at("startupProbe", "successThreshold"), text, "write successThreshold: 1")
        yield from _short(driver)


def _short(driver: Driver) -> Iterator[Problem]:
    if driver.precompiled or not any(_number(driver, "startupProbe", field) for field in _PROBE_FIELDS):
        return
    delay = _number(driver, "startupProbe", "initialDelaySeconds") or 60
    period = _number(driver, "startupProbe", "periodSeconds") or 10
    failures = _number(driver, "startupProbe", "failureThreshold") or 120
    total = max(delay, 0) + period * failures
    if min(period, failures) > 0 and total < _BUILD_SECONDS:
        text = (
            f"gives the driver {total} s ({max(delay, 0)} + {failures} x {period}); a build takes ten minutes on some "
            "nodes, and is killed and begun again until then"
        )
        enough = -(-(_BUILD_SECONDS * 2) // period)
        yield problem(driver.at("startupProbe"), text, f"write failureThreshold: {enough}", severity=Severity.WARN)


def _number(driver: Driver, *steps: str) -> int:
    value = driver.value(*steps)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_SUPERSEDED = {
    "ENABLE_AUTO_DRAIN": ("enable", "false"),
    "DRAIN_USE_FORCE": ("force", "false"),
    "DRAIN_POD_SELECTOR_LABEL": ("podSelector", ""),
    "DRAIN_TIMEOUT_SECONDS": ("timeoutSeconds", "0s"),
    "DRAIN_DELETE_EMPTYDIR_DATA": ("deleteEmptyDir", "false"),
}
"""Variables of the driver manager, the field of upgradePolicy.drain that replaces each, and what charts set by default."""


@CLUSTER_POLICY.rule(
    "GA127",
    "The driver manager must leave upgrades to the operator",
    default=Severity.WARN,
    remedy="set driver.upgradePolicy instead",
    source="docs.nvidia.com GPU Operator, GPU driver upgrades; github.com/NVIDIA/gpu-operator "
    "deployments/gpu-operator/values.yaml",
    rows=("C-32", "C-33", "S-14"),
)
def driver_manager(change: Change) -> Iterator[Problem]:
    """With `upgradePolicy.autoUpgrade` the operator's upgrade controller evicts and drains, by its own settings.

    The variables that told the driver manager to do so are not read any more: a node that was meant to be drained is
    not, and the upgrade waits for its pods.
    """
    for driver in drivers_of(change):
        version = driver.text("manager", "version")
        match = _MANAGER.fullmatch(version)
        if match and tuple(map(int, match.groups())) < _OLDEST_MANAGER:
            text = f'"{version}" is older than v0.6.4, the oldest that works with this operator'
            yield problem(driver.at("manager", "version"), text, "write version: v0.12.0, or what your registry has")
        if not change.flag("driver", "upgradePolicy", "autoUpgrade"):
            continue
        variables = change.items("driver", "manager", "env")
        for index, variable in enumerate(variables):
            name, value = lookup(variable, ("name",)), lookup(variable, ("value",))
            if found := _ignored_variable(change, name, value):
                yield problem(driver.at("manager", "env", index), *found)


def _ignored_variable(change: Change, name: Any, value: Any) -> tuple[str, str] | None:
    """What is wrong with a variable of the driver manager; nothing where the upgrade policy says the same."""
    if not isinstance(name, str) or not isinstance(value, str):
        return None
    text = f'sets {name} to "{value}", which nothing reads with upgradePolicy.autoUpgrade: true'
    if name == "ENABLE_GPU_POD_EVICTION" and value == "false":
        return text, "remove it; set upgradePolicy.autoUpgrade: false to keep GPU pods from being evicted"
    field, usual = _SUPERSEDED.get(name, ("", value))
    said = change.value("driver", "upgradePolicy", "drain", field)
    spelled = str(said).lower() if isinstance(said, bool) else str(said)
    if value in (usual, spelled, f"{spelled}s"):
        return None
    number = value.removesuffix("s")
    return (
        text,
        f"remove it, and write driver.upgradePolicy.drain.{field}: {number if field == 'timeoutSeconds' else value}",
    )
