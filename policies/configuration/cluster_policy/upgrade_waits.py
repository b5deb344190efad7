"""What upgrades wait for, and whether they run at all: pods in the way, timeouts, versions of the operator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.upgrade_policies import UpgradePolicy, upgrade_policy
from policies.configuration.components.checks import COMPONENTS
from policies.configuration.usage import counted, gpu_pods, listed
from policies.decision import Severity
from policies.kubernetes.objects import Object, controller_of, namespace_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

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
