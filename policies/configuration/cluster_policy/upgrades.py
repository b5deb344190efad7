"""Driver upgrades: `upgradePolicy` of a ClusterPolicy's driver and of an NVIDIADriver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.configuration.change import COMPONENTS, WITH_DRIVER, Change, Section
from policies.configuration.components.driver_versions import drivers_of
from policies.configuration.facts import counted_names, gpu_pods
from policies.kubernetes.objects import Object, controller_of, lookup, namespace_of
from policies.kubernetes.selectors import LabelSelectorError, parse_label_selector
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["UpgradePolicy", "percentage", "upgrade_policy", "whole_number"]

_PERCENTAGE = re.compile(r"([+-]?[0-9]{1,9})%")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class UpgradePolicy(Section):
    """The `upgradePolicy` of a ClusterPolicy's driver or of an NVIDIADriver."""

    @property
    def runs(self) -> bool:
        """True if upgrades are automatic; otherwise the rest of the policy is not read."""
        return self.flag("autoUpgrade", default=self.change.kind == "NVIDIADriver")

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


_NOT_READ = "; it is not read while autoUpgrade is false"


@COMPONENTS.rule(
    "GA169",
    "Upgrades must set maxUnavailable to a number or a percentage above zero",
    default=Severity.DENY,
    remedy='write a number such as 1, without quotes, or a percentage such as "25%"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go, "
    "github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go",
    rows=("E-01", "E-02", "E-03"),
    kinds=WITH_DRIVER,
)
def unavailable_nodes(change: Change) -> Iterator[Problem]:
    """The upgrade controller computes how many nodes may be unavailable, and stops at invalid text.

    Zero means that no node may ever be upgraded, so a new driver version is silently never rolled out.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    path, value, share = (
        policy.at("maxUnavailable"),
        policy.value("maxUnavailable"),
        percentage(policy.value("maxUnavailable")),
    )
    number = policy.number("maxUnavailable") if share is None else share
    idle, severity = ("", None) if policy.runs else (_NOT_READ, Severity.WARN)
    if isinstance(value, str) and share is None:
        whole = whole_number(value)
        cause = f'invalid value "{value}"' if value.endswith("%") else "invalid type: string is not a percentage"
        text = f'is "{value}"; the operator would report: invalid value for IntOrString: {cause}{idle}'
        remedy = None if whole is None else f'write {whole}, without quotes, or "{whole}%"'
        yield problem(path, text, remedy, severity=severity)
    elif number is not None and number < 0:
        yield problem(path, f"is {value}; no upgrade would ever start{idle}", severity=severity)
    elif number == 0 and policy.runs:
        text = f"is {value}, so no node may be upgraded, and no upgrade would ever start"
        yield problem(path, text, 'write 1 or more, or "25%"; to stop upgrades, write autoUpgrade: false')
    elif share is not None and share > 100:
        text = f"is {value}, which allows all nodes to be unavailable at once"
        yield problem(path, text, 'write "100%", or a smaller share', severity=Severity.WARN)


@COMPONENTS.rule(
    "GA170",
    "Upgrades must set maxParallelUpgrades to a number of nodes, at most maxUnavailable",
    default=Severity.WARN,
    remedy="write how many nodes may be upgraded at once",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go",
    rows=("E-04", "E-05"),
    kinds=WITH_DRIVER,
)
def parallel_upgrades(change: Change) -> Iterator[Problem]:
    """Zero does not disable upgrades: it means without limit, and only `maxUnavailable` limits them.

    `maxUnavailable` also silently caps a larger number of parallel upgrades.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.runs:
        return
    parallel, unavailable = policy.number("maxParallelUpgrades"), policy.number("maxUnavailable")
    path = policy.at("maxParallelUpgrades")
    if parallel == 0:
        text = "is 0, which means without limit; as many nodes as maxUnavailable allows are upgraded at once"
        yield problem(path, text, "write how many nodes may be upgraded at once; to stop them, autoUpgrade: false")
    elif parallel is not None and unavailable is not None and 0 < unavailable < parallel:
        text = f"is {parallel}, but maxUnavailable: {unavailable} allows no more than {unavailable}"
        yield problem(path, text, f"write {unavailable}, or raise maxUnavailable")


@COMPONENTS.rule(
    "GA171",
    "Upgrades must select pods by valid label selectors",
    default=Severity.DENY,
    remedy='write a label selector such as "app=training" or "team in (a,b)"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go, k8s.io/apimachinery pkg/labels",
    rows=("E-06", "E-08"),
    kinds=WITH_DRIVER,
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
        switch = "autoUpgrade" if not policy.runs else "drain.enable" if step == "drain" and not policy.drains else ""
        idle = f"; it is not read while {switch} is false" if switch else ""
        try:
            parse_label_selector(selector)
        except LabelSelectorError as error:
            text = f'"{selector}" is not a label selector: {error}{idle}'
            yield problem(policy.at(step, "podSelector"), text, severity=Severity.WARN if idle else None)
    timeout = policy.number("waitForCompletion", "timeoutSeconds") or 0
    if policy.runs and timeout > 0 and not policy.text("waitForCompletion", "podSelector"):
        text = f"is {timeout}, but has no effect without a podSelector"
        remedy = "write waitForCompletion.podSelector too, or remove the timeout"
        yield problem(policy.at("waitForCompletion", "timeoutSeconds"), text, remedy, severity=Severity.WARN)


_VERSION = re.compile(r"(?:gpu-operator-)?v?(\d+)\.(\d+)\.\d+")
_PANICS_UP_TO = (26, 3)
"""The last operator that reads `drain` without a check."""
_CHART = {"maxParallelUpgrades": 1, "maxUnavailable": "25%"}
"""What the Helm chart and OpenShift's console write into every upgrade policy."""


@COMPONENTS.rule(
    "GA172",
    "Upgrades must be able to move the pods in their way",
    default=Severity.WARN,
    remedy="write a timeout in seconds, such as 300",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/pod_manager.go, docs gpu-driver-upgrades",
    rows=("E-07", "E-09"),
    kinds=WITH_DRIVER,
)
def pods_in_the_way(change: Change) -> Iterator[Problem]:
    """A driver is replaced when no GPU pod runs on its node; a timeout of zero waits without end.

    Pods without a controller are deleted only with `podDeletion.force` or a forced drain, because they are not created
    again. Pods with emptyDir volumes are deleted only with `deleteEmptyDir`, because their content is lost. Otherwise the
    node ends in upgrade-failed, cordoned.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.runs:
        return
    for step in ("podDeletion", "drain"):
        if (step == "podDeletion" or policy.drains) and policy.number(step, "timeoutSeconds") == 0:
            text = "is 0, which means to wait without end; one pod that does not end keeps its node cordoned"
            yield problem(policy.at(step, "timeoutSeconds"), text)
    if change.kind != "ClusterPolicy":
        return
    for field, stops_at, what, remedy in _STOPS:
        is_allowed = policy.value("podDeletion", field) is True or (
            policy.drains and policy.value("drain", field) is True
        )
        pods = [] if is_allowed else gpu_pods(change.facts, stops_at)
        if pods:
            text = f"upgrades stop in upgrade-failed at pods with {what}: {counted_names('pod', pods)}"
            yield problem(policy.at("podDeletion", field), text, remedy)


def _has_empty_dir(pod: Object) -> bool:
    volumes = lookup(pod, ("spec", "volumes"))
    return isinstance(volumes, list) and any(lookup(volume, ("emptyDir",)) is not None for volume in volumes)


def _has_no_controller(pod: Object) -> bool:
    return controller_of(pod) is None


_STOPS = (
    (
        "deleteEmptyDir",
        _has_empty_dir,
        "emptyDir volumes",
        "write podDeletion.deleteEmptyDir: true to let upgrades delete what is in them, or end the pods before",
    ),
    (
        "force",
        _has_no_controller,
        "no controller",
        "write podDeletion.force: true to let upgrades delete them, or end them before an upgrade",
    ),
)
"""The field that lets upgrades delete pods, the pods that they stop at without it, what these have, and what to do."""


@COMPONENTS.rule(
    "GA173",
    "Automatic upgrades must be configured only where the operator can run them",
    default=Severity.WARN,
    remedy="write autoUpgrade: false, and upgrade drivers node by node",
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go, issue 2417",
    rows=("E-10", "E-11", "J-15"),
    kinds=("ClusterPolicy",),
)
def upgrades_run(change: Change) -> Iterator[Problem]:
    """With sandbox workloads the upgrade controller does nothing and removes its labels from nodes.

    Operators up to 26.3 read `drain` without a check, and crash again and again if it is missing. The values that the
    Helm chart writes into every policy do not count as a wish for upgrades.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.runs or change.kind != "ClusterPolicy":
        return
    path = policy.at("autoUpgrade")
    if change.flag("sandboxWorkloads", "enabled") and _is_customised(policy):
        yield problem(path, "has no effect while sandboxWorkloads.enabled is true; the operator skips all upgrades")
    version = None if isinstance(policy.value("drain"), dict) else _operator_version(change)
    if version is not None and version <= _PANICS_UP_TO:
        text = (
            f"is true without drain, and operator {version[0]}.{version[1]} would crash with a nil pointer dereference"
        )
        yield problem(path, text, "write drain: {enable: false} beside it")


def _is_customised(policy: UpgradePolicy) -> bool:
    changed = any(policy.value(field) not in (None, usual) for field, usual in _CHART.items())
    selects = policy.text("waitForCompletion", "podSelector") != ""
    return changed or selects or policy.drains or policy.value("podDeletion", "force") is True


def _operator_version(change: Change) -> tuple[int, int] | None:
    """The operator's version: of its running pod, or as its Helm chart labels the ClusterPolicy."""
    labels = lookup(change.object, ("metadata", "labels"))
    chart = labels.get("helm.sh/chart") if isinstance(labels, dict) else None
    images = [
        lookup(pod, ("spec", "containers", 0, "image"))
        for pod in change.facts.known_objects("Pod")
        if namespace_of(pod) in change.facts.operator_namespaces
        and lookup(pod, ("metadata", "labels", "app")) == "gpu-operator"
    ]
    return next((version for version in map(_version, [*images, chart]) if version is not None), None)


def _version(text: Any) -> tuple[int, int] | None:
    match = _VERSION.match(text.rpartition(":")[2]) if isinstance(text, str) else None
    return (int(match[1]), int(match[2])) if match else None
