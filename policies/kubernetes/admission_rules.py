"""Rules and selectors of webhooks and admission policies: which writes they match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.paths import lookup, mappings_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object

__all__ = ["UnknownOperatorError", "Write", "rule_matches", "selects"]


class UnknownOperatorError(ValueError):
    """A label selector has an operator that Kubernetes does not know; the text is the operator."""


class Write(NamedTuple):
    """One write, in the words of a rule."""

    operation: str
    group: str
    version: str
    """Empty for any version, as `matchPolicy: Equivalent` has it."""
    resource: str
    """The plural in lower case: `pods`."""
    subresource: str = ""
    is_namespaced: bool = True


def rule_matches(rule: Object, write: Write) -> bool:
    """True if a rule of a webhook or policy matches a write; `resourceNames` are not compared."""
    scope = rule.get("scope") or "*"
    wanted = {"operations": write.operation, "apiGroups": write.group}
    if write.version:
        wanted["apiVersions"] = write.version
    return (
        (scope == "*" or (scope == "Namespaced") == write.is_namespaced)
        and all({"*", value} & set(rule.get(field) or ()) for field, value in wanted.items())
        and any(_is_resource(written, write) for written in rule.get("resources") or ())
    )


def _is_resource(written: str, write: Write) -> bool:
    resource, _, part = written.partition("/")
    return resource in ("*", write.resource) and part in ("*", write.subresource)


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """True if a LabelSelector object selects labels; an empty or missing one selects everything.

    Raises:
        UnknownOperatorError: It has an unknown operator.
    """
    exact = lookup(selector, ("matchLabels",)) or {}
    return all(labels.get(key) == value for key, value in exact.items()) and all(
        _meets(labels, expression) for expression in mappings_at(selector, ("matchExpressions",))
    )


def _meets(labels: Mapping[str, str], expression: Object) -> bool:
    key: str = expression.get("key") or ""
    operator: str = expression.get("operator") or ""
    values: list[str] = expression.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    raise UnknownOperatorError(operator)
