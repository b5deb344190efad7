"""Nodes: which of them a pod may run on, by its node selector and required affinity."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object

__all__ = ["REQUIRED", "allocatable", "expression_matches", "labels_of", "pod_selects"]

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_LEAST, _MOST = -(2**63), 2**63 - 1
_TEXT = frozenset({str})

REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def labels_of(node: Object) -> Mapping[str, str]:
    """A node's labels; what a hand-written node has as a number or a bool is no label's value and is left out."""
    labels = lookup(node, ("metadata", "labels"))
    if not isinstance(labels, dict):
        return {}
    if _TEXT.issuperset(map(type, labels.values())):
        return labels
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def allocatable(node: Object, resource: str) -> str:
    """How much of an extended resource the node's kubelet offers, as text; "0" where it offers none."""
    return str(lookup(node, ("status", "allocatable", resource)) or "0")


def pod_selects(spec: Mapping[str, Any], node: Object) -> bool:
    """Whether a pod's node selector and required node affinity let it run on the node.

    Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity: terms are OR-ed, expressions within a term AND-ed,
    a term without any expression matches nothing, nor does one with an expression that is none.
    """
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = lookup(spec, REQUIRED)
    if required is None:
        return True
    fields = {"metadata.name": lookup(node, ("metadata", "name")) or ""}
    return any(_term_matches(term, labels, fields) for term in required.get("nodeSelectorTerms") or [])


def _term_matches(term: Mapping[str, Any], labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    field_expressions = term.get("matchFields") or []
    return bool(expressions or field_expressions) and (
        all(expression_matches(expression, labels) for expression in expressions)
        and all(_field_matches(expression, fields) for expression in field_expressions)
    )


def _field_matches(expression: Mapping[str, Any], fields: Mapping[str, str]) -> bool:
    """`matchFields` has two operators, and each takes one value."""
    values = expression.get("values") or []
    if expression.get("operator") not in ("In", "NotIn") or len(values) != 1:
        return False
    return (fields.get(expression.get("key") or "", "") == values[0]) is (expression["operator"] == "In")


def expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy one expression of a node selector term.

    An expression that is none matches nothing: an unknown operator, `In` or `NotIn` without values, `Exists` or
    `DoesNotExist` with values, `Gt` or `Lt` with anything but one whole number.

    Source: k8s.io/apimachinery/pkg/labels NewRequirement, Requirement.Matches.
    """
    key, values = expression.get("key") or "", expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return bool(values) and labels.get(key) not in values
        case "Exists":
            return not values and key in labels
        case "DoesNotExist":
            return not values and key not in labels
        case "Gt" | "Lt" as operator:
            return len(values) == 1 and _compare(operator, labels.get(key), values[0])
        case _:
            return False


def _compare(operator: str, label: str | None, bound: str) -> bool:
    number, limit = _integer(label or ""), _integer(bound)
    if number is None or limit is None:
        return False
    return number > limit if operator == "Gt" else number < limit


def _integer(text: str) -> int | None:
    """A number as Go's strconv.ParseInt reads it; what does not fit into 64 bits is none."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if _LEAST <= number <= _MOST else None
