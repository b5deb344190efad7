"""DaemonSets of operands: rolling updates, users, labels and tolerations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import OPERATOR, WITH_OPERANDS, Change
from policies.configuration.cluster_facts import counted_names
from policies.configuration.cluster_policy.runtime import uses_nri_plugin
from policies.configuration.cluster_policy.upgrades import percentage, whole_number
from policies.fleet.operands import is_deployed
from policies.kubernetes.names import is_dns_label, is_label_key, is_label_value, printable, write_closest
from policies.kubernetes.nodes import labels_of, node_taint, tolerates_taint
from policies.kubernetes.objects import Object, lookup, name_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DEPLOY_OPERANDS_LABEL, GPU_RESOURCE
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_ROLLING_UPDATE = ("daemonsets", "rollingUpdate", "maxUnavailable")
_USUAL_UPDATE = "1"
"""The `rollingUpdate.maxUnavailable` that the Helm chart and OpenShift's console write into every object."""
_BUILT_IN = ("system-node-critical", "system-cluster-critical")
"""The priority classes that every cluster has."""


@WITH_OPERANDS.rule(
    "GA174",
    "The rolling update of operands must be a number of nodes or a percentage",
    remedy='write a number or a percentage in quotes, such as "1" or "25%"',
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyUpdateStrategyConfig, "
    "manifests/state-dra-driver/0500_daemonset.yaml; k8s.io/kubernetes pkg/apis/apps/validation",
    rows=("E-13", "E-14", "E-15", "E-16"),
)
def rolling_update(change: Change) -> Iterator[Problem]:
    """The CRD accepts any text here; the operator parses it when it writes the DaemonSets of its operands.

    A text that is not a number stops the operator. The API server refuses zero and more than all nodes, and the operands
    are not updated. The operator reads the field neither with OnDelete, nor for the driver's DaemonSet, nor in a
    GPUCluster.
    """
    path, text = change.at(*_ROLLING_UPDATE), change.text(*_ROLLING_UPDATE)
    if not text:
        return
    if change.kind == "GPUCluster":
        if text != _USUAL_UPDATE:
            message = f'"{text}" has no effect, because the operator does not read it in a GPUCluster'
            yield Problem(path, message, "remove rollingUpdate", severity=Severity.WARN)
    elif change.text("daemonsets", "updateStrategy") == "OnDelete":
        if text != _USUAL_UPDATE:
            message = f'"{text}" has no effect, because updateStrategy is OnDelete'
            remedy = "write updateStrategy: RollingUpdate, or remove rollingUpdate"
            yield Problem(path, message, remedy, severity=Severity.WARN)
    elif reason := _refusal(text):
        yield Problem(path, f'"{text}" {reason}')
    elif (
        change.kind == "ClusterPolicy"
        and text != _USUAL_UPDATE
        and not change.mapping("driver", "upgradePolicy")
        and is_deployed(change.object, "driver")
    ):
        message = "does not apply to the driver, whose pods are replaced only by hand or by driver.upgradePolicy"
        remedy = "write driver.upgradePolicy too, with autoUpgrade: true and maxUnavailable"
        yield Problem(path, message, remedy, severity=Severity.AUDIT)


def _refusal(text: str) -> str:
    """The reason why the operator or the API server would refuse a value; empty if they would not."""
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


@OPERATOR.rule(
    "GA178",
    "Operands must have a priority class that exists, a runtime class that can, and the user that they need",
    remedy="remove runAsNonRoot",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyCommonDaemonsetConfig, "
    "transformValidatorSecurityContext, transformRuntimeClass, manifests/state-driver/0500_daemonset.yaml; "
    "k8s.io/kubernetes pkg/apis/node/validation ValidateRuntimeClass",
    rows=("E-22", "E-23"),
)
def pods_may_run(change: Change) -> Iterator[Problem]:
    """Operands need root to load kernel modules; the kubelet refuses to start them as another user.

    If the priority class does not exist, the API server forbids the pods. In a GPUCluster the operator does not read
    `podSecurityContext`. The operator makes the RuntimeClass, with a handler of the same name, before all else: if it
    cannot, it deploys nothing.
    """
    context = change.section(*(() if change.kind == "NVIDIADriver" else ("daemonsets",)), "podSecurityContext")
    is_read = change.kind != "GPUCluster"
    if context.flag("runAsNonRoot"):
        text = "is true; the kubelet would report: container has runAsNonRoot and image will run as root"
        if not is_read:
            text = "has no effect, because the operator does not read podSecurityContext in a GPUCluster"
        yield Problem(context.at("runAsNonRoot"), text, severity=None if is_read else Severity.WARN)
    user = context.number("runAsUser")
    if user and is_read:
        text = f"is {user}; as this user the driver and the toolkit cannot change anything on the host"
        yield Problem(context.at("runAsUser"), text, "remove runAsUser", severity=Severity.WARN)
    name = change.text("daemonsets", "priorityClassName")
    if name and name not in _BUILT_IN and change.facts.view.get("PriorityClass", name) is None:
        text = f'"{name}" does not exist; the pods would be forbidden: no PriorityClass with name {name} was found'
        remedy = f'write "system-node-critical", or create the PriorityClass "{name}" first'
        yield Problem(change.at("daemonsets", "priorityClassName"), text, remedy, severity=Severity.WARN)
    name = change.text("operator", "runtimeClass")
    if name and not is_dns_label(name) and not uses_nri_plugin(change):
        text = f'"{printable(name)}" cannot name a RuntimeClass and its handler; the API server would refuse the one that the '
        text += "operator makes, and nothing would be deployed"
        remedy = f'write "{name.lower()}"' if is_dns_label(name.lower()) else 'write "nvidia", or remove it'
        yield Problem(change.at("operator", "runtimeClass"), text, remedy)


_POLICY_LABELS = (
    ("daemonsets", "labels"),
    ("dcgmExporter", "serviceMonitor", "additionalLabels"),
    ("operator", "labels"),
    ("operator", "metrics", "serviceMonitor", "additionalLabels"),
)
_POLICY_ANNOTATIONS = (("daemonsets", "annotations"), ("dcgmExporter", "annotations"), ("operator", "annotations"))
_RESERVED = ("app", "app.kubernetes.io/part-of")
"""Labels by which the operator finds its pods, so it does not let them change."""


@OPERATOR.rule(
    "GA177",
    "Labels and annotations of operands must be valid and take effect",
    remedy="write a name of at most 63 letters, digits, -, _ and ., with a DNS name and a slash before it if need be",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go DaemonSet, applyCommonDaemonsetMetadata, "
    "applyServiceMonitorCustomEdits, addExtraAnnotations; k8s.io/apimachinery pkg/util/validation",
    rows=("E-20", "E-21"),
)
def pod_metadata(change: Change) -> Iterator[Problem]:
    """The CRD accepts any text; the API server refuses the objects that get it.

    One invalid key on `daemonsets` affects every operand. The labels by which the operator finds its pods, `app` and
    `app.kubernetes.io/part-of`, are silently dropped. Nothing reads the labels and annotations of `operator`, nor those of
    an exporter or a ServiceMonitor that is disabled.
    """
    own = change.kind == "NVIDIADriver"
    for steps in (("labels",),) if own else _POLICY_LABELS:
        idle, severity = ("", None) if own or _is_applied(change, steps) else (_UNREAD, Severity.WARN)
        for key, value in change.mapping(*steps).items():
            path = change.at(*steps, key)
            if not is_label_key(key):
                yield Problem(path, f'"{key}" cannot be the key of a label{idle}', severity=severity)
            elif isinstance(value, str) and not is_label_value(value):
                text = f'"{value}" cannot be the value of a label{idle}'
                remedy = "write at most 63 letters, digits, -, _ and ., or make it an annotation"
                yield Problem(path, text, remedy, severity=severity)
            elif steps == ("daemonsets", "labels") and key in _RESERVED:
                text = "is dropped by the operator, which finds its pods by this label"
                yield Problem(path, text, "remove it, or use a key of your own", severity=Severity.WARN)
    for steps in (("annotations",),) if own else _POLICY_ANNOTATIONS:
        idle, severity = ("", None) if own or _is_applied(change, steps) else (_UNREAD, Severity.WARN)
        for key in change.mapping(*steps):
            # The DNS name in the key of an annotation may have capitals.
            if not is_label_key(str(key).lower()):
                text = f'"{key}" cannot be the key of an annotation{idle}'
                yield Problem(change.at(*steps, key), text, severity=severity)


_UNREAD = "; nothing reads it here"


def _is_applied(change: Change, steps: tuple[str, ...]) -> bool:
    """True if the operator gives labels or annotations to an object: it deploys what they are for."""
    if steps[0] == "dcgmExporter":
        has_monitor = "serviceMonitor" not in steps or change.flag("dcgmExporter", "serviceMonitor", "enabled")
        return has_monitor and is_deployed(change.object, "dcgmExporter")
    return steps[0] == "daemonsets" or "serviceMonitor" in steps


_DEFAULT = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
"""The toleration of operands if no tolerations are written."""
_ANY = ("daemonsets", "tolerations")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal")
_COMPARING = ("Lt", "Gt")
"""Operators of newer versions of Kubernetes, which taints of GPU nodes hardly have."""


@WITH_OPERANDS.rule(
    "GA175",
    "Operands must tolerate the taints of GPU nodes",
    default=Severity.WARN,
    remedy="add {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyCommonDaemonsetConfig, "
    "manifests/state-dra-driver/0500_daemonset.yaml, issues 2717, 270, 26, 397",
    rows=("E-17", "E-18"),
)
def taints_tolerated(change: Change) -> Iterator[Problem]:
    """Tolerations replace the default one for `nvidia.com/gpu`, the usual taint of GPU nodes.

    Without it the operands leave every node that has the taint: the driver, the device plugin, and with them the GPUs.
    A taint that nothing tolerates leaves the DaemonSets at "DESIRED 0", which no component reports as an error. A GPUCluster
    has no default toleration.
    """
    if change.kind not in ("ClusterPolicy", "GPUCluster"):
        return
    is_cluster = change.kind == "GPUCluster"
    written = [item for item in change.items(*_ANY) if isinstance(item, dict)]
    nodes = change.facts.gpu_nodes()
    if nodes is UNKNOWN or not nodes:
        if written and not any((item.get("key") or "") in ("", GPU_RESOURCE) for item in written):
            verb = "leaves out the" if is_cluster else "replaces the default"
            yield Problem(change.at(*_ANY), f"{verb} toleration of {GPU_RESOURCE}, which GPU nodes often need")
        return
    tolerated = written or ([] if is_cluster else [_DEFAULT])
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
        if not written and key != GPU_RESOURCE and not is_cluster:
            default = f"{{key: {GPU_RESOURCE}, operator: Exists, effect: NoSchedule}}"
            remedy += f", and the default {default}, which is replaced then"
        yield Problem(change.at(*_ANY), text + result, remedy, severity=Severity.DENY if replaced else None)


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


@OPERATOR.rule(
    "GA176",
    "Tolerations must be valid",
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
                yield Problem(change.at(*steps, index, field), text, remedy)


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
