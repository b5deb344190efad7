"""DaemonSets of operands: rolling updates, priority class, user, labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_OPERANDS
from policies.configuration.cluster_policy.upgrades import percentage, whole_number
from policies.configuration.components.driver import drivers_of
from policies.decision import Severity
from policies.kubernetes.names import is_label_key, is_label_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_ROLLING_UPDATE = ("daemonsets", "rollingUpdate", "maxUnavailable")
_CHART = "1"
"""What the Helm chart and OpenShift's console write as `rollingUpdate.maxUnavailable` into every object."""
_BUILT_IN = ("system-node-critical", "system-cluster-critical")
"""The priority classes that every cluster has."""


@COMPONENTS.rule(
    "GA174",
    "The rolling update of operands must be a number of nodes or a percentage",
    default=Severity.DENY,
    remedy='write a number or a percentage in quotes, such as "1" or "25%"',
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go, k8s.io/kubernetes pkg/apis/apps/validation",
    rows=("E-13", "E-14", "E-15", "E-16"),
    kinds=WITH_OPERANDS,
)
def rolling_update(change: Change) -> Iterator[Problem]:
    """The CRD accepts any text here; the operator parses it when it writes the DaemonSets of its operands.

    A text that is not a number stops the operator. The API server refuses zero and more than all nodes, and the operands
    are not updated. With OnDelete the field is not read, and for the driver's DaemonSet it never is.
    """
    path, text = change.at(*_ROLLING_UPDATE), change.text(*_ROLLING_UPDATE)
    if not text:
        return
    if change.text("daemonsets", "updateStrategy") == "OnDelete":
        if text != _CHART:
            message = f'"{text}" has no effect, because updateStrategy is OnDelete'
            remedy = "write updateStrategy: RollingUpdate, or remove rollingUpdate"
            yield problem(path, message, remedy, severity=Severity.WARN)
    elif reason := _refusal(text):
        yield problem(path, f'"{text}" {reason}')
    elif text != _CHART and change.kind == "ClusterPolicy" and not change.mapping("driver", "upgradePolicy"):
        for _ in drivers_of(change):
            message = "does not apply to the driver, whose pods are replaced only by hand or by driver.upgradePolicy"
            remedy = "write driver.upgradePolicy too, with autoUpgrade: true and maxUnavailable"
            yield problem(path, message, remedy, severity=Severity.AUDIT)


def _refusal(text: str) -> str:
    """Why the operator or the API server would refuse a value; empty if they would not."""
    share = percentage(text)
    number = whole_number(text) if share is None else share
    refused = "the API server would refuse the DaemonSets"
    if number is None and text.endswith("%"):
        return f"is not a percentage; {refused}: a valid percent string must be numeric"
    if number is None:
        return "is not a number; the operator would report: failed to apply rolling update config"
    if number < 0:
        return f"is negative; {refused}: must be greater than or equal to 0"
    if number == 0:
        return f"lets no pod be replaced; {refused}: cannot be 0 when maxSurge is 0"
    if share is not None and share > 100:
        return f"is more than all nodes; {refused}: must not be greater than 100%"
    return ""


@COMPONENTS.rule(
    "GA178",
    "Operands must have a priority class that exists and the user that they need",
    default=Severity.DENY,
    remedy="remove runAsNonRoot",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go",
    rows=("E-22", "E-23"),
)
def pods_may_run(change: Change) -> Iterator[Problem]:
    """Operands need root to load kernel modules; the kubelet refuses to start them as another user.

    If the priority class does not exist, the pods are forbidden, and no DaemonSet gets any.
    """
    context = change.section(*(() if change.kind == "NVIDIADriver" else ("daemonsets",)), "podSecurityContext")
    if context.flag("runAsNonRoot"):
        text = "is true; the kubelet would report: container has runAsNonRoot and image will run as root"
        yield problem(context.at("runAsNonRoot"), text)
    user = context.number("runAsUser")
    if user:
        text = f"is {user}; as this user the driver and the toolkit cannot change anything on the host"
        yield problem(context.at("runAsUser"), text, "remove runAsUser", severity=Severity.WARN)
    name = change.text("daemonsets", "priorityClassName")
    if name and name not in _BUILT_IN and change.facts.get("PriorityClass", name) is None:
        text = f'"{name}" does not exist; the pods would be forbidden: no PriorityClass with name {name} was found'
        remedy = f'write "system-node-critical", or create the PriorityClass "{name}" first'
        yield problem(change.at("daemonsets", "priorityClassName"), text, remedy, severity=Severity.WARN)


_POLICY_LABELS = (
    ("daemonsets", "labels"),
    ("dcgmExporter", "serviceMonitor", "additionalLabels"),
    ("operator", "labels"),
    ("operator", "metrics", "serviceMonitor", "additionalLabels"),
)
_POLICY_ANNOTATIONS = (("daemonsets", "annotations"), ("dcgmExporter", "annotations"), ("operator", "annotations"))
_RESERVED = ("app", "app.kubernetes.io/part-of")
"""Labels by which the operator finds its pods, so it does not let them change."""


@COMPONENTS.rule(
    "GA177",
    "Labels and annotations of operands must be valid and take effect",
    default=Severity.DENY,
    remedy="write a name of at most 63 letters, digits, -, _ and ., with a DNS name and a slash before it if need be",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go, k8s.io/apimachinery pkg/util/validation",
    rows=("E-20", "E-21"),
)
def pod_metadata(change: Change) -> Iterator[Problem]:
    """The CRD accepts any text; the API server refuses the objects that get it.

    One invalid key on `daemonsets` affects every operand. The labels by which the operator finds its pods, `app` and
    `app.kubernetes.io/part-of`, are silently dropped.
    """
    own = change.kind == "NVIDIADriver"
    for steps in (("labels",),) if own else _POLICY_LABELS:
        for key, value in change.mapping(*steps).items():
            path = change.at(*steps, key)
            if not is_label_key(key):
                yield problem(path, f'"{key}" cannot be the key of a label')
            elif isinstance(value, str) and not is_label_value(value):
                text = f'"{value}" cannot be the value of a label'
                yield problem(path, text, "write at most 63 letters, digits, -, _ and ., or make it an annotation")
            elif steps == ("daemonsets", "labels") and key in _RESERVED:
                text = "is dropped by the operator, which finds its pods by this label"
                yield problem(path, text, "remove it, or use a key of your own", severity=Severity.WARN)
    for steps in (("annotations",),) if own else _POLICY_ANNOTATIONS:
        for key in change.mapping(*steps):
            # The DNS name in the key of an annotation may have capitals.
            if not is_label_key(str(key).lower()):
                yield problem(change.at(*steps, key), f'"{key}" cannot be the key of an annotation')
