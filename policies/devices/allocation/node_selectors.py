"""Node selectors of slices, devices and allocations: the nodes that they match, and their errors."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.devices.allocation.reading import AllocationError, objects, text, texts
from policies.kubernetes.names import is_label_key, is_label_value
from policies.kubernetes.nodes import NodeIndex, labels_of
from policies.kubernetes.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.devices.allocation.slices import NodeSelection
    from policies.kubernetes.objects import Object

__all__ = ["TargetNode"]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


class TargetNode:
    """The node for which claims are to be allocated."""

    def __init__(self, document: Object) -> None:
        """Read the name and the labels of a Node."""
        self.name = name_of(document)
        self._metadata = {"name": self.name, "labels": labels_of(document)}

    @cached_property
    def _labels(self) -> NodeIndex:
        return NodeIndex([{"metadata": self._metadata}])

    def matches(self, selection: NodeSelection) -> bool:
        """True if devices can be reached from it.

        Raises:
            AllocationError: the node selector is invalid.

        Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating NodeMatches.
        """
        if selection.node_name:
            return selection.node_name == self.name
        if selection.all_nodes:
            return True
        if selection.selector is None:
            return False
        problems = list(dict.fromkeys(_problems(selection.selector)))
        if problems:
            said = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise AllocationError(f"failed to parse node selector {_kubernetes_text(selection.selector)}: {said}")
        required = {"requiredDuringSchedulingIgnoredDuringExecution": selection.selector}
        return self._labels.select({"affinity": {"nodeAffinity": required}}) != 0


def _problems(selector: Mapping[str, Any]) -> Iterator[str]:
    """What Kubernetes' parser says; a term without any expression matches nothing and is passed over.

    Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, k8s.io/apimachinery/pkg/labels NewRequirement.
    """
    for number, term in enumerate(objects(selector, "nodeSelectorTerms", "nodeSelector")):
        path = f"nodeSelectorTerms[{number}]"
        for position, expression in enumerate(objects(term, "matchExpressions", path)):
            yield from _expression_problems(expression, f"{path}.matchExpressions[{position}]")
        for position, expression in enumerate(objects(term, "matchFields", path)):
            yield from _field_problems(expression, f"{path}.matchFields[{position}]")


def _expression_problems(expression: Mapping[str, Any], path: str) -> Iterator[str]:
    key, operator, values = _parts(expression, path)
    if operator not in _OPERATORS:
        yield _unsupported_operator(path, operator, _OPERATORS)
        return
    if not is_label_key(key):
        yield f'{path}.key: Invalid value: "{key}": is no label key'
    if operator in ("In", "NotIn") and not values:
        yield f"{path}.values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    if operator in ("Exists", "DoesNotExist") and values:
        yield f"{path}.values: Invalid value: {_json(values)}: values set must be empty for exists and does not exist"
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield (
                f"{path}.values: Invalid value: {_json(values)}: "
                f"for 'Gt', 'Lt' operators, exactly one value is required"
            )
        for position, value in enumerate(values):
            if not _is_integer(value):
                yield (
                    f'{path}.values[{position}]: Invalid value: "{value}": '
                    f"for 'Gt', 'Lt' operators, the value must be an integer"
                )
    for position, value in enumerate(values):
        if not is_label_value(value):
            yield f'{path}.values[{position}][{key}]: Invalid value: "{value}": is no label value'


def _field_problems(expression: Mapping[str, Any], path: str) -> Iterator[str]:
    _, operator, values = _parts(expression, path)
    if operator not in _FIELD_OPERATORS:
        yield _unsupported_operator(path, operator, _FIELD_OPERATORS)
    elif len(values) != 1:
        yield f"{path}.values: Invalid value: {_json(values)}: must have one element"


def _parts(expression: Mapping[str, Any], path: str) -> tuple[str, str, tuple[str, ...]]:
    return text(expression, "key", path), text(expression, "operator", path), texts(expression, "values", path)


def _unsupported_operator(path: str, operator: str, supported: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{name}"' for name in supported)
    return f'{path}.operator: Unsupported value: "{operator}": supported values: {listed}'


def _is_integer(value: str) -> bool:
    digits = value.removeprefix("+") if value.startswith("+") else value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(value[:64]) < 2**63 and len(value) < 64


def _json(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"


def _kubernetes_text(selector: Mapping[str, Any]) -> str:
    """A node selector as Kubernetes' generated `String` method spells it."""
    terms = "".join(
        "NodeSelectorTerm{"
        f"MatchExpressions:{_requirements(term.get('matchExpressions'))},"
        f"MatchFields:{_requirements(term.get('matchFields'))},}},"
        for term in selector.get("nodeSelectorTerms") or []
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _requirements(expressions: list[Mapping[str, Any]] | None) -> str:
    spelled = "".join(
        f"NodeSelectorRequirement{{Key:{expression.get('key') or ''},Operator:{expression.get('operator') or ''},"
        f"Values:[{' '.join(expression.get('values') or [])}],}},"
        for expression in expressions or []
    )
    return f"[]NodeSelectorRequirement{{{spelled}}}"
