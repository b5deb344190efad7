"""DaemonSets of operands: updates, priority class, user, labels, annotations, tolerations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import COMPONENTS, WITH_OPERANDS
from policies.configuration.cluster_policy.upgrades import percentage, whole_number
from policies.configuration.components.driver_versions import drivers_of
from policies.configuration.facts import counted_names
from policies.kubernetes.names import is_label_key, is_label_value
from policies.kubernetes.nodes import labels_of, node_taint, tolerates_taint
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.phrases import write_closest
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DEPLOY_OPERANDS_LABEL, GPU_RESOURCE
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object


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


_DEFAULT = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
"""What operands tolerate where no tolerations are written."""
_ANY = ("daemonsets", "tolerations")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal")
_COMPARING = ("Lt", "Gt")
"""Operators of newer versions of Kubernetes, which taints of GPU nodes hardly have."""


@COMPONENTS.rule(
    "GA175",
    "Operands must tolerate the taints of GPU nodes",
    default=Severity.WARN,
    remedy="add {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go, issues 2717, 270, 26, 397",
    rows=("E-17", "E-18"),
    kinds=WITH_OPERANDS,
)
def taints_tolerated(change: Change) -> Iterator[Problem]:
    """Tolerations replace the default one for `nvidia.com/gpu`, the usual taint of GPU nodes.

    Without it the operands leave every node that has the taint: the driver, the device plugin, and with them the GPUs.
    A taint that nothing tolerates leaves the DaemonSets at "DESIRED 0", which no component reports as an error.
    """
    if change.kind not in ("ClusterPolicy", "GPUCluster"):
        return
    written = [item for item in change.items(*_ANY) if isinstance(item, dict)]
    nodes = change.facts.gpu_nodes()
    if nodes is UNKNOWN or not nodes:
        if written and not any((item.get("key") or "") in ("", GPU_RESOURCE) for item in written):
            yield problem(
                change.at(*_ANY), f"replaces the default toleration of {GPU_RESOURCE}, which GPU nodes often need"
            )
        return
    tolerated = written or [_DEFAULT]
    for taint, names in _taints(nodes).items():
        key, value, effect = taint
        if tolerates_taint(tolerated, {"key": key, "value": value, "effect": effect}):
            continue
        shown = f"{key}{'=' if value else ''}{value}:{effect}"
        text = f"leaves the taint {shown} of {counted_names('GPU node', names)} untolerated"
        replaced = key == GPU_RESOURCE and bool(written)
        result = (
            "; operands would leave these nodes, and no GPU would be offered" if replaced else "; no operand runs there"
        )
        remedy = f"add {{key: {key}, operator: Exists, effect: {effect}}}"
        if not written and key != GPU_RESOURCE:
            default = f"{{key: {GPU_RESOURCE}, operator: Exists, effect: NoSchedule}}"
            remedy += f", and the default {default}, which is replaced then"
        yield problem(change.at(*_ANY), text + result, remedy, severity=Severity.DENY if replaced else None)


def _taints(nodes: list[Object]) -> Mapping[tuple[str, str, str], list[str]]:
    """The lasting taints that keep pods off, with the names of the nodes that have them."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        if labels_of(node).get(DEPLOY_OPERANDS_LABEL) == "false":
            continue
        taints = lookup(node, ("spec", "taints"))
        for taint in taints if isinstance(taints, list) else []:
            key, value, effect = (_text(taint, field) for field in ("key", "value", "effect"))
            told = node_taint(key)
            # What comes and goes with the life of a node is no reason, and every DaemonSet tolerates some of it.
            if key and not (told and told.passes) and effect in ("NoSchedule", "NoExecute"):
                found.setdefault((key, value, effect), []).append(name_of(node))
    return found


def _text(item: Any, field: str) -> str:
    value = lookup(item, (field,))
    return value if isinstance(value, str) else ""


@COMPONENTS.rule(
    "GA176",
    "Tolerations must be valid",
    default=Severity.DENY,
    remedy="write {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateTolerations",
    rows=("E-19",),
)
def toleration_syntax(change: Change) -> Iterator[Problem]:
    """The CRD accepts any toleration; the API server refuses all operands if one is invalid.

    Only the operator's log shows the reason.
    """
    steps = ("tolerations",) if change.kind == "NVIDIADriver" else _ANY
    for index, item in enumerate(change.items(*steps)):
        if isinstance(item, dict):
            for field, text, remedy in _mistakes(item):
                yield problem(change.at(*steps, index, field), text, remedy)


def _mistakes(item: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The field, the message and the remedy of each value that Kubernetes does not allow."""
    key, value, effect, operator = (_text(item, field) for field in ("key", "value", "effect", "operator"))
    if operator and operator not in (*_OPERATORS, *_COMPARING):
        yield "operator", f'"{operator}" is neither "Exists" nor "Equal"', _write_one(operator, _OPERATORS)
    if effect and effect not in _EFFECTS:
        yield "effect", f'"{effect}" is not an effect of a taint', _write_one(effect, _EFFECTS)
    if key and not is_label_key(key):
        yield "key", f'"{key}" cannot be the key of a taint', "write the key as the node's taint has it"
    if not key and operator in ("", "Equal"):
        text = "is empty, which stands for all keys, and that needs operator: Exists"
        yield "key", text, "write a key, or operator: Exists"
    if operator == "Exists" and value:
        text = f'"{value}" contradicts operator: Exists, which matches every value'
        yield "value", text, "remove value, or write operator: Equal"
    elif operator in ("", "Equal") and not is_label_value(value):
        yield "value", f'"{value}" cannot be the value of a taint', "write the value as the node's taint has it"
    if item.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "needs effect: NoExecute, because only that evicts running pods"
        yield "tolerationSeconds", text, "remove tolerationSeconds, or write effect: NoExecute"


def _write_one(text: str, known: tuple[str, ...]) -> str:
    return write_closest(text, known, f"write one of {', '.join(known)}")
