"""The driver of a ClusterPolicy, and its removal under running pods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.configuration.change import CLUSTER_POLICY, Section
from policies.configuration.cluster_facts import counted_names, gpu_claims, gpu_pods, the_nodes
from policies.configuration.drivers import Driver, drivers_of, os_of
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


_VGPU = "build the vGPU driver, with usePrecompiled: false and its full version"
_IMAGE = ("version", "repository", "image")


@CLUSTER_POLICY.rule(
    "GA118",
    "A precompiled driver must not have settings that would build or change it",
    remedy="set usePrecompiled: false",
    source="docs.nvidia.com GPU Operator, precompiled driver containers, limitations; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go transformGDSContainer, transformGDRCopyContainer, transformDriverContainer; "
    "github.com/NVIDIA/gpu-driver-container ubuntu24.04/precompiled/nvidia-driver _resolve_kernel_type",
    rows=("C-03", "C-04", "C-05"),
)
def precompiled_limits(change: Change) -> Iterator[Problem]:
    """A precompiled driver has its kernel modules built before, and nothing beside them.

    With GPUDirect Storage or GDRCopy the operator stops deploying the driver. NVIDIA publishes no precompiled vGPU driver,
    so such an image must be one's own. Package repositories and certificates concern a build that does not happen. Of the
    published images only those for Ubuntu have both kinds of modules to choose from.
    """
    for driver in drivers_of(change):
        if not driver.is_precompiled:
            continue
        for name, label in (("gds", "GPUDirect Storage driver (nvidia-fs)"), ("gdrcopy", "GDRCopy")):
            if change.flag(name, "enabled"):
                error = f"{label} is not supported along with pre-compiled NVIDIA drivers"
                text = f"does not work with driver.usePrecompiled; the operator would report: {error}"
                yield Problem(change.at(name, "enabled"), text, "write enabled: false, or driver.usePrecompiled: false")
        if name := next((each for each in ("secretName", "configMapName") if driver.text("licensingConfig", each)), ""):
            text = "is for vGPU drivers, of which NVIDIA publishes no precompiled ones"
            yield Problem(driver.at("licensingConfig", name), text, _VGPU, severity=Severity.WARN)
        if driver.is_for_vgpu:
            text = f'"{driver.text("image")}" is a vGPU driver, of which NVIDIA publishes no precompiled ones'
            yield Problem(driver.at("image"), text, _VGPU, severity=Severity.WARN)
        for steps in (("repoConfig", "configMapName"), ("certConfig", "name"), ("secretEnv",)):
            if driver.text(*steps):
                text = "has no effect with usePrecompiled, as nothing is built on the node"
                yield Problem(driver.at(*steps), text, "remove it", severity=Severity.WARN)
        systems = [os_of(node) for node in driver.known_nodes()]
        can_choose = bool(systems) and all(system.startswith("ubuntu") for system in systems)
        if driver.text("kernelModuleType") not in ("", "auto") and not can_choose:
            text = "cannot change the module that a precompiled driver comes with, except in images for Ubuntu"
            yield Problem(driver.at("kernelModuleType"), text, "write kernelModuleType: auto", severity=Severity.WARN)


@CLUSTER_POLICY.rule(
    "GA122",
    "A driver that is not deployed must have no settings",
    default=Severity.WARN,
    remedy="remove it, or set driver.enabled: true",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled; "
    "controllers/object_controls.go TransformDevicePlugin; cmd/nvidia-validator/main.go NvidiaFs.runValidation",
    rows=("C-14", "C-15"),
)
def disabled_driver(change: Change) -> Iterator[Problem]:
    """With `driver.enabled: false` the operator uses the driver of the host and ignores `spec.driver`.

    GPUDirect Storage and GDRCopy are containers of the driver's pods. Without these pods nothing is installed, but the
    operator configures the device plugin as if it was, and its validator waits for the module nvidia-fs. That is right
    only where the hosts have these modules themselves.
    """
    driver = change.section("driver")
    if driver.flag("enabled", default=True):
        return
    for name in ("gds", "gdrcopy"):
        if change.flag(name, "enabled"):
            text = "is a part of the driver's pods, which driver.enabled: false leaves out, but the device plugin relies on it"
            remedy = "write enabled: false unless the hosts have the module, or set driver.enabled: true"
            yield Problem(change.at(name, "enabled"), text, remedy)
    unused = [("licensingConfig", "secretName")] if driver.text("licensingConfig", "secretName") else []
    for steps in (*_build_settings(driver), *unused):
        yield Problem(driver.at(*steps), "has no effect with driver.enabled: false")
    for name in _IMAGE if change.old is not None else ():
        now = driver.text(name)
        if now and now != driver.value_before(name):
            yield Problem(driver.at(name), f'is changed to "{now}", which has no effect with driver.enabled: false')


@CLUSTER_POLICY.rule(
    "GA123",
    "A ClusterPolicy must not configure a driver that NVIDIADrivers replace",
    default=Severity.WARN,
    remedy="set the field in an NVIDIADriver, and remove it here",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go step; docs.nvidia.com GPU Operator, NVIDIA GPU "
    "driver custom resource definition",
    rows=("C-16",),
)
def replaced_driver(change: Change) -> Iterator[Problem]:
    """With `useNvidiaDriverCRD: true` the operator deploys NVIDIADrivers and ignores `spec.driver`.

    A new version here silently upgrades no node.
    """
    driver = change.section("driver")
    if driver.flag("useNvidiaDriverCRD"):
        for steps in (*((name,) for name in _IMAGE if driver.text(name)), *_build_settings(driver)):
            text = f"is {shown(driver.value(*steps))}, and has no effect with useNvidiaDriverCRD: true"
            yield Problem(driver.at(*steps), text, f"set {steps[-1]} in an NVIDIADriver, and remove it here")


def _build_settings(driver: Section) -> Iterator[tuple[str, ...]]:
    """The settings of the kernel modules that are not the default."""
    if driver.flag("usePrecompiled"):
        yield ("usePrecompiled",)
    if driver.text("kernelModuleType") not in ("", "auto"):
        yield ("kernelModuleType",)


_PROBE_FIELDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_BUILD_SECONDS = 600
_MANAGER = re.compile(r"v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})")
_OLDEST_MANAGER = (0, 6, 4)


@CLUSTER_POLICY.rule(
    "GA124",
    "The driver must have its startup probe only, with enough time to build",
    remedy="remove it; the driver's container has only a startupProbe",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go setContainerProbe; "
    "assets/state-driver/0500_daemonset.yaml; k8s.io/kubernetes pkg/apis/core/validation",
    rows=("C-17", "C-18", "C-19"),
)
def probes(change: Change) -> Iterator[Problem]:
    """The driver's container has a startup probe only; with another probe the operator crashes.

    Nothing is reconciled then. If the startup probe gives up before the kernel modules are compiled, the kubelet kills
    the container again and again.
    """
    for driver in drivers_of(change):
        for probe in ("livenessProbe", "readinessProbe"):
            if any(driver.number(probe, field) for field in _PROBE_FIELDS):
                why = "the driver's container has no such probe to set"
                yield Problem(driver.at(probe), f"makes the operator crash on every reconciliation: {why}")
        startup = Section(change, (*driver.steps, "startupProbe"))
        delay, successes = startup.number("initialDelaySeconds") or 0, startup.number("successThreshold") or 0
        if delay < 0:
            text = f"is {delay}; Kubernetes would report: must be greater than or equal to 0"
            yield Problem(startup.at("initialDelaySeconds"), text, "write initialDelaySeconds: 60")
        if successes > 1:
            text = f"is {successes}; Kubernetes would report: must be 1"
            yield Problem(startup.at("successThreshold"), text, "write successThreshold: 1")
        if not driver.is_precompiled and any(startup.number(field) for field in _PROBE_FIELDS):
            delay = max(startup.number("initialDelaySeconds") or 60, 0)
            period, failures = startup.number("periodSeconds") or 10, startup.number("failureThreshold") or 120
            total = delay + period * failures
            if min(period, failures) > 0 and total < _BUILD_SECONDS:
                text = f"gives the driver {total} s ({delay} + {failures} x {period}), and then kills it"
                remedy = f"write failureThreshold: {-(-(_BUILD_SECONDS * 2) // period)}"
                message = f"{text}; a build takes ten minutes on some nodes"
                yield Problem(startup.at(), message, remedy, severity=Severity.WARN)


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
    "controllers/nodelabeling_controller.go applyDriverAutoUpgradeAnnotation, deployments/gpu-operator/values.yaml; "
    "github.com/NVIDIA/k8s-driver-manager cmd/driver-manager/main.go isAutoDrainEnabled, isGPUPodEvictionEnabled",
    rows=("C-32", "C-33", "S-14"),
)
def driver_manager(change: Change) -> Iterator[Problem]:
    """With `upgradePolicy.autoUpgrade` the upgrade controller evicts and drains, by its own settings.

    The variables for it are not read by the driver manager any more: nodes are not drained, and upgrades wait for their
    pods.
    """
    for driver in drivers_of(change):
        version = driver.text("manager", "version")
        match = _MANAGER.fullmatch(version)
        is_old = match is not None and tuple(map(int, match.groups())) < _OLDEST_MANAGER
        # The charts of operators before have older managers themselves.
        if is_old and NVIDIAFeature.NewDriverManager.is_in(change.facts.operator_version(change.object)) is not False:
            text = f'"{version}" is older than v0.6.4, the oldest that works with operators from 24.3'
            yield Problem(driver.at("manager", "version"), text, "write version: v0.12.0, or what your registry has")
        if driver.flag("upgradePolicy", "autoUpgrade"):
            for index, name, value in driver.variables("manager", "env"):
                if value is not None and (remedy := _instead_of_variable(driver, name, value)):
                    text = f'sets {name} to "{value}", which has no effect with upgradePolicy.autoUpgrade: true'
                    yield Problem(driver.at("manager", "env", index), text, remedy)


def _instead_of_variable(driver: Driver, name: str, value: str) -> str:
    """The remedy for a variable that is ignored; empty if the upgrade policy says the same."""
    if name == "ENABLE_GPU_POD_EVICTION" and value == "false":
        return "remove it; set upgradePolicy.autoUpgrade: false to keep GPU pods from being evicted"
    field, usual = _SUPERSEDED.get(name, ("", value))
    drain = driver.value("upgradePolicy", "drain", field)
    spelled = str(drain).lower() if isinstance(drain, bool) else str(drain)
    if value in (usual, spelled, f"{spelled}s"):
        return ""
    instead = value.removesuffix("s") if field == "timeoutSeconds" else value
    return f"remove it, and write driver.upgradePolicy.drain.{field}: {instead}"


ALLOW_DELETION = "gpu-admission.io/allow-deletion"
_NAME = FieldPath(["metadata", "name"])
_USUAL_NAMES = ("cluster-policy", "gpu-cluster-policy")
"""Of the Helm chart, and of OpenShift's console."""


@CLUSTER_POLICY.rule(
    "GA105",
    "A cluster must have one ClusterPolicy, and no GPUCluster beside it",
    remedy="change the existing one, or delete it first",
    source="github.com/NVIDIA/gpu-operator controllers/active_config.go getSingletonClusterPolicy, resolveActiveConfig, "
    "controllers/clusterpolicy_controller.go Reconcile",
    rows=("A-01", "A-02", "A-07"),
)
def one_cluster_policy(change: Change) -> Iterator[Problem]:
    """The operator follows the oldest ClusterPolicy and silently ignores every other, which is a warning.

    Edits of an ignored one have no effect, and mistakes in it break nothing. Beside a GPUCluster the operator reconciles
    neither of the two, and no longer manages what runs on the nodes: that is refused.
    """
    if not change.is_created:
        return
    names = map(name_of, change.facts.view.known_objects("ClusterPolicy"))
    others = [name for name in names if name != change.name]
    if others:
        text = f'"{change.name}" would be ignored, because the operator follows the older "{others[0]}"'
        yield Problem(_NAME, text, severity=Severity.WARN)
    clusters = [name_of(cluster) for cluster in change.facts.view.known_objects("GPUCluster")]
    if clusters:
        error = (
            f'conflicting GPUCluster resource "{clusters[0]}" detected; ClusterPolicy and GPUCluster cannot co-exist'
        )
        text = (
            f'"{change.name}" and the GPUCluster "{clusters[0]}" exclude each other; the operator would report: {error}'
        )
        yield Problem(_NAME, text, f'delete the GPUCluster "{clusters[0]}" first, or keep it')
    if change.name and not others and change.name not in _USUAL_NAMES:
        text = f'"{change.name}" is allowed, but documentation and scripts patch'
        text += " clusterpolicies.nvidia.com/cluster-policy"
        yield Problem(_NAME, text, 'write "cluster-policy"', severity=Severity.AUDIT)


@CLUSTER_POLICY.rule(
    "GA106",
    "A ClusterPolicy must not be deleted while pods use GPUs",
    default=Severity.WARN,
    remedy=f'end these pods first, or annotate the ClusterPolicy with {ALLOW_DELETION}: "true"',
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go DaemonSet, whose owner is the ClusterPolicy; "
    "issues 303, 474, 367, 661, 2166",
    rows=("A-03",),
    setting="configuration.clusterPolicyDeletion",
)
def deleted_without_pods(change: Change) -> Iterator[Problem]:
    """Deleting the ClusterPolicy deletes the driver and every other operand on every node at once.

    The driver's modules are in use and cannot be unloaded ("Failed to remove GPU"), pods that end stay Terminating, and
    running pods keep devices that no component accounts for. Nodes recover by a reboot.
    """
    if lookup(change.object, ("metadata", "annotations", ALLOW_DELETION)) == "true":
        return
    active = change.facts.cluster_policy()
    if isinstance(active, dict) and name_of(active) != change.name:
        return
    holders = (("pod", gpu_pods(change.facts)), ("claim", gpu_claims(change.facts)))
    users = " and ".join(counted_names(noun, names) for noun, names in holders if names)
    if users:
        text = f'"{change.name}" is deleted while GPUs are held by {users}; this removes the driver under them'
        yield Problem(_NAME, text, severity=change.facts.cluster_policy_deletion)


@CLUSTER_POLICY.rule(
    "GA108",
    "The driver must not be disabled on running nodes",
    default=Severity.WARN,
    remedy="drain the nodes first",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled, "
    "controllers/nvidiadriver_controller.go Reconcile",
    rows=("A-05", "A-06"),
)
def driver_kept(change: Change) -> Iterator[Problem]:
    """The operator removes the driver's DaemonSets at once, with the modules that running pods use.

    Switching `useNvidiaDriverCRD` off makes every NVIDIADriver `disabled` and replaces their DaemonSets by one with the
    settings of the ClusterPolicy, which may be another driver.
    """
    if change.old is None:
        return
    driver, facts = change.section("driver"), change.facts
    if driver.value_before("enabled") is not False and driver.value("enabled") is False:
        path, nodes = driver.at("enabled"), facts.nodes_with("nvidia.com/gpu.deploy.driver", "true")
        if facts.view.list("Node") is UNKNOWN:
            yield Problem(path, "removes the driver from every node that has it; the nodes are not known here")
        elif nodes:
            yield Problem(path, f"removes the driver from {the_nodes(nodes)}, under the pods that run there")
    if driver.value_before("useNvidiaDriverCRD") is True and not driver.flag("useNvidiaDriverCRD"):
        path, remedy = driver.at("useNvidiaDriverCRD"), "delete the NVIDIADrivers first, or leave it true"
        names = [name_of(each) for each in facts.view.known_objects("NVIDIADriver")]
        if facts.view.list("NVIDIADriver") is UNKNOWN:
            yield Problem(path, "disables every NVIDIADriver; which ones exist is not known here", remedy)
        elif names:
            text = f"disables {counted_names('NVIDIADriver', names)} and replaces the driver on their nodes"
            yield Problem(path, text, remedy)
