"""Driver upgrades: `upgradePolicy` of a ClusterPolicy's driver and of an NVIDIADriver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS
from policies.configuration.usage import counted, gpu_pods, listed
from policies.decision import Severity
from policies.kubernetes.label_selectors import LabelSelectorError, parse_label_selector
from policies.kubernetes.objects import Object, controller_of, namespace_of
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["UpgradePolicy", "percentage", "upgrade_policy", "whole_number"]

_PERCENTAGE = re.compile(r"([+-]?[0-9]{1,9})%")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """The `upgradePolicy` of an object, wherever its kind has it."""

    fields: dict[str, Any]
    path: FieldPath
    runs: bool
    """Whether upgrades are done by themselves; without, the rest of the policy is not read."""

    def value(self, *steps: str) -> Any:
        """What is at a path of the policy; None where nothing is."""
        return lookup(self.fields, steps)

    def text(self, *steps: str) -> str:
        """The text at a path of the policy; empty where there is none."""
        value = self.value(*steps)
        return value if isinstance(value, str) else ""

    def number(self, *steps: str) -> int | None:
        """The whole number at a path of the policy; None where there is none."""
        value = self.value(*steps)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def at(self, *steps: str) -> FieldPath:
        """The path of a field, as the object has it."""
        return FieldPath((*self.path, *steps))


def upgrade_policy(change: Change) -> UpgradePolicy | None:
    """The upgrade policy of a ClusterPolicy or an NVIDIADriver; None where there is none, or nobody reads it.

    A ClusterPolicy that leaves the driver to the host or to NVIDIADrivers has an upgrade policy in vain.
    """
    steps = {"ClusterPolicy": ("driver", "upgradePolicy"), "NVIDIADriver": ("upgradePolicy",)}.get(change.kind)
    if steps is None:
        return None
    fields = change.mapping(*steps)
    by_default = change.kind == "NVIDIADriver"
    if not fields or (not by_default and not _drives(change)):
        return None
    return UpgradePolicy(fields, change.at(*steps), change.flag(*steps, "autoUpgrade", default=by_default))


def _drives(change: Change) -> bool:
    return change.flag("driver", "enabled", default=True) and not change.flag("driver", "useNvidiaDriverCRD")


def percentage(value: Any) -> int | None:
    """The number of a percentage such as "25%"; None for what Kubernetes does not read as one."""
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def whole_number(text: str) -> int | None:
    """The number that a text is; None for what Go does not read as a whole number."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


_NOT_READ = "; it is not read while autoUpgrade is false"


def _unless_idle(policy: UpgradePolicy) -> Severity | None:
    """What a mistake in a policy that is not in force amounts to."""
    return None if policy.runs else Severity.WARN


@COMPONENTS.rule(
    "GA169",
    "Upgrades must set maxUnavailable to a number or a percentage above zero",
    default=Severity.DENY,
    remedy='write a number such as 1, without quotes, or a percentage such as "25%"',
    source="github.com/NVIDIA/gpu-operator controllers/upgrade_controller.go, "
    "github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go",
    rows=("E-01", "E-02", "E-03"),
)
def unavailable_nodes(change: Change) -> Iterator[Problem]:
    """The upgrade controller computes how many nodes it may take out; text that is no percentage stops it each time.

    Zero is understood and means that no node may ever be upgraded, so a new driver version is never rolled out, and
    nothing says so.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    value, severity, idle = policy.value("maxUnavailable"), _unless_idle(policy), "" if policy.runs else _NOT_READ
    path = policy.at("maxUnavailable")
    share = percentage(value)
    number = policy.number("maxUnavailable") if share is None else share
    if isinstance(value, str) and share is None:
        yield _unreadable(policy, value, severity, idle)
    elif number is not None and number < 0:
        yield problem(path, f"is {value}; no upgrade would ever start{idle}", severity=severity)
    elif number == 0 and policy.runs:
        text = f"is {value}, so no node may be upgraded, and no upgrade would ever start"
        yield problem(path, text, 'write 1 or more, or "25%"; to stop upgrades, write autoUpgrade: false')
    elif share is not None and share > 100:
        text = f"is {value}, which allows all nodes to be unavailable at once"
        yield problem(path, text, 'write "100%", or a smaller share', severity=Severity.WARN)


def _unreadable(policy: UpgradePolicy, value: str, severity: Severity | None, idle: str) -> Problem:
    number = whole_number(value)
    cause = f'invalid value "{value}"' if value.endswith("%") else "invalid type: string is not a percentage"
    text = f'is "{value}"; the operator would report: invalid value for IntOrString: {cause}{idle}'
    remedy = None if number is None else f'write {number}, without quotes, or "{number}%"'
    return problem(policy.at("maxUnavailable"), text, remedy, severity=severity)


@COMPONENTS.rule(
    "GA170",
    "Upgrades must set maxParallelUpgrades to a number of nodes, at most maxUnavailable",
    default=Severity.WARN,
    remedy="write how many nodes may be upgraded at once",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/common_manager.go",
    rows=("E-04", "E-05"),
)
def parallel_upgrades(change: Change) -> Iterator[Problem]:
    """Zero does not switch upgrades off: it means without limit, and only `maxUnavailable` holds them back.

    `maxUnavailable` also caps a larger number of parallel upgrades, silently.
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
)
def pod_selectors(change: Change) -> Iterator[Problem]:
    """The selectors are text, which nobody reads before the first upgrade; then the node ends in upgrade-failed.

    The operator adds `,nvidia.com/gpu-driver-upgrade-drain.skip!=true` to the one of `drain`, so a comma at the end is a
    mistake as well. Waiting for completion needs a selector; without one nothing is waited for, whatever the timeout.
    """
    policy = upgrade_policy(change)
    if policy is None:
        return
    for step in ("drain", "waitForCompletion"):
        selector = policy.text(step, "podSelector")
        in_force = policy.runs and (step != "drain" or policy.value("drain", "enable") is True)
        try:
            parse_label_selector(selector)
        except LabelSelectorError as error:
            idle = (
                ""
                if in_force
                else f"; it is not read while {'drain.enable' if policy.runs else 'autoUpgrade'} is false"
            )
            text = f'"{selector}" is no label selector: {error}{idle}'
            yield problem(policy.at(step, "podSelector"), text, severity=None if in_force else Severity.WARN)
    timeout = policy.number("waitForCompletion", "timeoutSeconds") or 0
    if policy.runs and timeout > 0 and not policy.text("waitForCompletion", "podSelector"):
        text = f"is {timeout}, but without a podSelector no pod is waited for, so it has no effect"
        remedy = "write waitForCompletion.podSelector too, or remove the timeout"
        yield problem(policy.at("waitForCompletion", "timeoutSeconds"), text, remedy, severity=Severity.WARN)


_VERSION = re.compile(r"(?:gpu-operator-)?v?(\d+)\.(\d+)\.\d+")
_PANICS_UP_TO = (26, 3)
"""The last operator that reads `drain` without looking whether it is there."""
_CHART = {"maxParallelUpgrades": 1, "maxUnavailable": "25%"}
"""What the Helm chart and OpenShift's console write into every upgrade policy."""


@COMPONENTS.rule(
    "GA172",
    "Upgrades must be able to move the pods in their way",
    default=Severity.WARN,
    remedy="write a timeout in seconds, such as 300",
    source="github.com/NVIDIA/k8s-operator-libs pkg/upgrade/pod_manager.go, docs gpu-driver-upgrades",
    rows=("E-07", "E-09"),
)
def pods_in_the_way(change: Change) -> Iterator[Problem]:
    """A driver is replaced after the GPU pods of its node are gone; a timeout of zero waits for that for ever.

    Pods without a controller are not deleted unless `podDeletion.force` or a forced drain says so, because nobody would
    make them again, and pods with emptyDir volumes not without `deleteEmptyDir`, because their content would be lost. The
    node then ends in upgrade-failed, cordoned.
    """
    policy = upgrade_policy(change)
    if policy is None or not policy.runs:
        return
    for step in ("podDeletion", "drain"):
        reached = step == "podDeletion" or policy.value("drain", "enable") is True
        if reached and policy.number(step, "timeoutSeconds") == 0:
            text = "is 0, which means to wait without end; one pod that does not go keeps its node cordoned"
            yield problem(policy.at(step, "timeoutSeconds"), text)
    if change.kind != "ClusterPolicy":
        return
    for field, stops_at, what, remedy in _STOPS:
        pods = (
            [] if _allows(policy, field) else gpu_pods(filter(stops_at, change.facts.known("Pod")), change.facts.view)
        )
        if pods:
            blocking = counted(len(pods), "pod", listed(pods))
            run, have = ("runs", "has") if len(pods) == 1 else ("run", "have")
            text = f"upgrades stop in upgrade-failed where {blocking} {run}, which {have} {what}"
            yield problem(policy.at("podDeletion", field), text, remedy)


def _has_empty_dir(pod: Object) -> bool:
    volumes = lookup(pod, ("spec", "volumes"))
    return isinstance(volumes, list) and any(lookup(volume, ("emptyDir",)) is not None for volume in volumes)


def _allows(policy: UpgradePolicy, field: str) -> bool:
    """True if the deletion of pods, or the drain after it, deletes pods that it would spare without a field."""
    drains = policy.value("drain", "enable") is True and policy.value("drain", field) is True
    return drains or policy.value("podDeletion", field) is True


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
)
def upgrades_run(change: Change) -> Iterator[Problem]:
    """With sandbox workloads enabled the upgrade controller does nothing, and takes its labels from the nodes.

    Operators up to 26.3 read `drain` without looking whether it is there, and crash again and again where it is not.
    What the Helm chart writes into every policy is not taken as a wish for upgrades.
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
            f"is true without drain, and the operator is {version[0]}.{version[1]}; "
            "up to 26.3 it would crash in a loop with a nil pointer dereference"
        )
        yield problem(path, text, "write drain: {enable: false} beside it")


def _is_customised(policy: UpgradePolicy) -> bool:
    changed = any(policy.value(field) not in (None, usual) for field, usual in _CHART.items())
    switched_on = policy.value("drain", "enable") is True or policy.value("podDeletion", "force") is True
    return changed or switched_on or policy.text("waitForCompletion", "podSelector") != ""


def _operator_version(change: Change) -> tuple[int, int] | None:
    """The operator's version: of its running pod, or as its Helm chart labels the ClusterPolicy."""
    labels = lookup(change.object, ("metadata", "labels"))
    chart = labels.get("helm.sh/chart") if isinstance(labels, dict) else None
    images = [
        lookup(pod, ("spec", "containers", 0, "image"))
        for pod in change.facts.known("Pod")
        if namespace_of(pod) in change.facts.operator_namespaces
        and lookup(pod, ("metadata", "labels", "app")) == "gpu-operator"
    ]
    return next((version for version in map(_version, [*images, chart]) if version is not None), None)


def _version(text: Any) -> tuple[int, int] | None:
    match = _VERSION.match(text.rpartition(":")[2]) if isinstance(text, str) else None
    return (int(match[1]), int(match[2])) if match else None
