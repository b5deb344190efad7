"""Upgrades of drivers: how many nodes at once, and the pods in their way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.configuration.change import CLUSTER_POLICY, WITH_DRIVER, Change, Section
from policies.configuration.cluster_facts import counted_names, gpu_pods, namespaced_name
from policies.configuration.drivers import drivers_of
from policies.fleet import holds_gpu
from policies.kubernetes.objects import Object, controller_of, has_ended, items_at, lookup, name_of, namespace_of
from policies.kubernetes.selectors import LabelSelectorError, parse_label_selector
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.container_toolkit import names_gpus
from policies.nvidia.pod_conditions import has_claims, requested_names
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView


_PERCENTAGE = re.compile(r"([+-]?[0-9]{1,9})%")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class UpgradePolicy(Section):
    """The `upgradePolicy` of a ClusterPolicy's driver or of an NVIDIADriver."""

    @property
    def is_automatic(self) -> bool:
        """True if `autoUpgrade` requests automatic upgrades."""
        return self.flag("autoUpgrade", default=self.change.kind == "NVIDIADriver")

    @property
    def unread_reason(self) -> str:
        """The reason, as a clause, why the operator does not read the rest of the policy; empty if it does."""
        if not self.is_automatic:
            return "autoUpgrade is false"
        has_sandboxes = self.change.kind == "ClusterPolicy" and self.change.flag("sandboxWorkloads", "enabled")
        return "sandboxWorkloads.enabled is true" if has_sandboxes else ""

    @property
    def is_read(self) -> bool:
        """True if the operator reads the rest of the policy."""
        return not self.unread_reason

    @property
    def drains(self) -> bool:
        """True if upgrades drain nodes."""
        return self.value("drain", "enable") is True


def upgrade_policy(change: Change) -> UpgradePolicy | None:
    """The upgrade policy of a ClusterPolicy or an NVIDIADriver; None if it is missing or not read.

    If the driver is the host's or that of NVIDIADrivers, the upgrade policy of a ClusterPolicy is not read.
    """
    driver = next(drivers_of(change), None)
    steps = (*driver.steps, "upgradePolicy") if driver is not None else ()
    return UpgradePolicy(change, steps) if steps and change.mapping(*steps) else None


def percentage(value: Any) -> int | None:
    """The number of a percentage such as "25%"; None for a value that Kubernetes does not read as one."""
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def whole_number(text: str) -> int | None:
    """The number that a text is; None for a text that Go does not read as a whole number."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


@WITH_DRIVER.rule(
    "GA169",
    "Upgrades must set maxUnavailable to a number or a percentage above zero",
    remedy='write a number such as 1, without quotes, or a percentage such as "25%"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go reconcileClusterPolicyDriverUpgrades, "
    "reconcileNVIDIADriverUpgrades; github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go GetUpgradesAvailable",
    rows=("E-01", "E-02", "E-03"),
)
def unavailable_nodes(change: Change) -> Iterator[Problem]:
    """The upgrade controller computes how many nodes may be unavailable, and stops at invalid text.

    Zero means that no node may ever be upgraded, so a new driver version is silently never rolled out.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    path, value = policy.at("maxUnavailable"), policy.value("maxUnavailable")
    share = percentage(value)
    number = policy.number("maxUnavailable") if share is None else share
    idle, severity = ("", None) if policy.is_read else (f"; it is not read while {policy.unread_reason}", Severity.WARN)
    if isinstance(value, str) and share is None:
        whole = whole_number(value)
        cause = f'invalid value "{value}"' if value.endswith("%") else "invalid type: string is not a percentage"
        text = f'is "{value}"; the operator would report: invalid value for IntOrString: {cause}{idle}'
        remedy = None if whole is None else f'write {whole}, without quotes, or "{whole}%"'
        yield Problem(path, text, remedy, severity=severity)
    elif number is not None and number < 0:
        yield Problem(path, f"is {value}; no upgrade would ever start{idle}", severity=severity)
    elif number == 0 and policy.is_read:
        text = f"is {value}, so no node may be upgraded, and no upgrade would ever start"
        yield Problem(path, text, 'write 1 or more, or "25%"; to stop upgrades, write autoUpgrade: false')
    elif share is not None and share > 100:
        text = f"is {value}, which allows all nodes to be unavailable at once"
        yield Problem(path, text, 'write "100%", or a smaller share', severity=Severity.WARN)


@WITH_DRIVER.rule(
    "GA170",
    "Upgrades must set maxParallelUpgrades to a number of nodes, at most maxUnavailable",
    default=Severity.WARN,
    remedy="write how many nodes may be upgraded at once",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go GetUpgradesAvailable",
    rows=("E-04", "E-05"),
)
def parallel_upgrades(change: Change) -> Iterator[Problem]:
    """Zero does not disable upgrades: it means without limit, and only `maxUnavailable` limits them.

    `maxUnavailable` also silently caps a larger number of parallel upgrades.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.is_read:
        return
    parallel, unavailable = policy.number("maxParallelUpgrades"), policy.number("maxUnavailable")
    path = policy.at("maxParallelUpgrades")
    if parallel == 0:
        text = "is 0, which means without limit; as many nodes as maxUnavailable allows are upgraded at once"
        yield Problem(path, text, "write how many nodes may be upgraded at once; to stop them, autoUpgrade: false")
    elif parallel is not None and unavailable is not None and 0 < unavailable < parallel:
        text = f"is {parallel}, but maxUnavailable: {unavailable} allows no more than {unavailable}"
        yield Problem(path, text, f"write {unavailable}, or raise maxUnavailable")


@WITH_DRIVER.rule(
    "GA171",
    "Upgrades must select pods by valid label selectors",
    remedy='write a label selector such as "app=training" or "team in (a,b)"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go reconcileClusterPolicyDriverUpgrades, "
    "reconcileNVIDIADriverUpgrades; github.com/NVIDIA/k8s-operator-libs pkg/upgrade/drain_manager.go ScheduleNodesDrain, "
    "pkg/upgrade/pod_manager.go ScheduleCheckOnPodCompletion; k8s.io/apimachinery pkg/labels",
    rows=("E-06", "E-08"),
)
def pod_selectors(change: Change) -> Iterator[Problem]:
    """The selectors are parsed at the first upgrade only; then the node ends in upgrade-failed.

    The operator appends `,nvidia.com/gpu-driver-upgrade-drain.skip!=true` to the one of `drain`, so a comma at the end is a
    mistake as well. Waiting for completion needs a selector; without one the timeout has no effect.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    for step in ("drain", "waitForCompletion"):
        selector = policy.text(step, "podSelector")
        why = policy.unread_reason or ("drain.enable is false" if step == "drain" and not policy.drains else "")
        idle = f"; it is not read while {why}" if why else ""
        try:
            parse_label_selector(selector)
        except LabelSelectorError as error:
            text = f'"{selector}" is not a label selector: {error}{idle}'
            yield Problem(policy.at(step, "podSelector"), text, severity=Severity.WARN if idle else None)
    timeout = policy.number("waitForCompletion", "timeoutSeconds") or 0
    if policy.is_read and timeout > 0 and not policy.text("waitForCompletion", "podSelector"):
        text = f"is {timeout}, but has no effect without a podSelector"
        remedy = "write waitForCompletion.podSelector too, or remove the timeout"
        yield Problem(policy.at("waitForCompletion", "timeoutSeconds"), text, remedy, severity=Severity.WARN)


_CHART = {"maxParallelUpgrades": 1, "maxUnavailable": "25%"}
"""The values that the Helm chart and OpenShift's console write into every upgrade policy."""


@WITH_DRIVER.rule(
    "GA172",
    "Upgrades must be able to move the pods in their way",
    default=Severity.WARN,
    remedy="write a timeout in seconds, such as 300",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/pod_manager.go; github.com/NVIDIA/gpu-operator "
    "cmd/gpu-operator/main.go gpuPodSpecFilter, issue 2570; docs gpu-driver-upgrades",
    rows=("E-07", "E-09"),
)
def pods_in_the_way(change: Change) -> Iterator[Problem]:
    """A driver is replaced when no GPU pod runs on its node; a timeout of zero waits without end.

    Pods without a controller are deleted only with `podDeletion.force` or a forced drain, because they are not created
    again. Pods with emptyDir volumes are deleted only with `deleteEmptyDir`, because their content is lost. Otherwise the
    node ends in upgrade-failed, cordoned.

    Pods that use GPUs without a request are not known to upgrades, and pods of DaemonSets are never deleted. The driver
    that they use cannot be unloaded, so the new one does not start.
    """
    yield from _pods_left_behind(change)
    policy = upgrade_policy(change)
    if policy is None or not policy.is_read:
        return
    for step in ("podDeletion", "drain"):
        if (step == "podDeletion" or policy.drains) and policy.number(step, "timeoutSeconds") == 0:
            text = "is 0, which means to wait without end; one pod that does not end keeps its node cordoned"
            yield Problem(policy.at(step, "timeoutSeconds"), text)
    if change.kind != "ClusterPolicy":
        return
    for field, stops_at, what, remedy in _STOPS:
        steps = ("podDeletion", "drain") if policy.drains else ("podDeletion",)
        is_allowed = any(policy.value(step, field) is True for step in steps)
        pods = [] if is_allowed else gpu_pods(change.facts, stops_at)
        if pods:
            text = f"upgrades stop in upgrade-failed at pods with {what}: {counted_names('pod', pods)}"
            yield Problem(policy.at("podDeletion", field), text, remedy)


_STOPS = (
    (
        "deleteEmptyDir",
        lambda pod: any(lookup(volume, ("emptyDir",)) is not None for volume in items_at(pod, ("spec", "volumes"))),
        "emptyDir volumes",
        "write podDeletion.deleteEmptyDir: true to let upgrades delete what is in them, or end the pods before",
    ),
    (
        "force",
        lambda pod: controller_of(pod) is None,
        "no controller",
        "write podDeletion.force: true to let upgrades delete them, or end them before an upgrade",
    ),
)
"""The field that lets upgrades delete pods, the pods that they stop at without it, what these have, and what to do."""


def _pods_left_behind(change: Change) -> Iterator[Problem]:
    """The pods that keep the present driver in use while a change replaces it."""
    policy = upgrade_policy(change)
    drains = policy is not None and policy.is_read and policy.drains
    for driver in drivers_of(change):
        before = lookup(change.stored, ("spec", *driver.steps))
        field = next((each for each in _REPLACING if driver.value(each) != lookup(before, (each,))), "")
        if not isinstance(before, dict) or not field:
            continue
        nodes = driver.nodes()
        own = None if nodes is UNKNOWN else {name_of(node) for node in nodes}
        left = [
            pod
            for pod in change.facts.view.known_objects("Pod")
            if namespace_of(pod) not in change.facts.operator_namespaces
            and (node := lookup(pod, ("spec", "nodeName")))
            and (own is None or node in own)
            and not has_ended(pod)
            and _outlives_upgrade(pod, change.facts.view, drains=drains)
        ]
        if left:
            names = sorted(map(namespaced_name, left))
            text = f"replaces the driver, and upgrades do not end {counted_names('pod', names)}, which may use GPUs"
            text += " without a request or as part of a DaemonSet; a driver in use is not unloaded"
            can_drain = policy is not None and policy.is_read and not any(map(_is_of_daemon_set, left))
            drain = ", or write upgradePolicy.drain: {enable: true, force: true}" if can_drain else ""
            yield Problem(driver.at(field), text, f"end these pods before{drain}")


_REPLACING = ("version", "image", "repository", "usePrecompiled", "kernelModuleType", "useOpenKernelModules")
"""The fields of a driver whose change replaces it."""
_COUNTED_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")
"""The resources by which upgrades find GPU pods. Source: github.com/NVIDIA/gpu-operator cmd/gpu-operator/main.go
gpuPodSpecFilter."""


def _outlives_upgrade(pod: Object, view: ClusterView, *, drains: bool) -> bool:
    """True if a pod may use a GPU and an upgrade does not end it."""
    if _is_of_daemon_set(pod):
        return holds_gpu(pod, view) or names_gpus(pod)
    is_known = has_claims(pod) or any(name.startswith(_COUNTED_RESOURCES) for name in requested_names(pod))
    return not (drains or is_known) and (holds_gpu(pod, view) or names_gpus(pod))


def _is_of_daemon_set(pod: Object) -> bool:
    controller = controller_of(pod)
    return controller is not None and controller.get("kind") == "DaemonSet"


@CLUSTER_POLICY.rule(
    "GA173",
    "Automatic upgrades must be configured only where the operator can run them",
    default=Severity.WARN,
    remedy="write autoUpgrade: false, and upgrade drivers node by node",
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go Reconcile, issue 2417",
    rows=("E-10", "E-11", "J-15"),
)
def upgrades_run(change: Change) -> Iterator[Problem]:
    """With sandbox workloads the upgrade controller does nothing and removes its labels from nodes.

    Operators up to 26.3 read `drain` without a check, and crash again and again if it is missing. The values that the
    Helm chart writes into every policy do not count as a wish for upgrades.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.is_automatic or change.kind != "ClusterPolicy":
        return
    path = policy.at("autoUpgrade")
    selects = policy.text("waitForCompletion", "podSelector") != ""
    forces = policy.drains or policy.value("podDeletion", "force") is True
    is_customised = selects or forces or any(policy.value(key) not in (None, usual) for key, usual in _CHART.items())
    if change.flag("sandboxWorkloads", "enabled") and is_customised:
        yield Problem(path, "has no effect while sandboxWorkloads.enabled is true; the operator skips all upgrades")
    is_safe = isinstance(policy.value("drain"), dict) or not policy.is_read
    version = UNKNOWN if is_safe else change.facts.operator_version(change.object)
    if NVIDIAFeature.OptionalDrain.is_in(version) is False:
        text = f"is true without drain, and operator {version} would crash with a nil pointer dereference"
        yield Problem(path, text, "write drain: {enable: false} beside it")
