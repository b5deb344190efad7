"""Tolerations: the nodes that operands get to, of ClusterPolicy, GPUCluster and NVIDIADriver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_OPERANDS
from policies.configuration.named_objects import counted_names
from policies.decision import Severity
from policies.kubernetes.misspellings import write_closest
from policies.kubernetes.names import is_label_key, is_label_value
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.taints import node_taint, tolerates_taint
from policies.nvidia.identifiers import DEPLOY_OPERANDS_LABEL, GPU_RESOURCE
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

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
