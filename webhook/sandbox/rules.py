"""CEL rules in the schemas of custom resources: `x-kubernetes-validations`.

`self` is dynamic: a type error that a real server finds in the definition is found here in the evaluation. Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from policies.dra.cel import CelCompileError, Map
from policies.kubernetes.paths import FieldPath
from webhook.sandbox.admission.expressions import compile_rule, value_of
from webhook.sandbox.statuses import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["has_rules", "rule_definition_problems", "rule_problems"]

_RULES = "x-kubernetes-validations"
_WHOLE = FieldPath()
_OF_CHANGES = re.compile(r"\boldSelf\b")


def has_rules(schema: Object) -> bool:
    """True if a schema contains a rule."""
    return bool(schema.get(_RULES)) or any(has_rules(inner) for _, inner in _inner(schema))


def _inner(schema: Object) -> Iterator[tuple[str, Object]]:
    """The schemas in a schema, and how its path goes on to them in the words of definitions."""
    for name, field in (schema.get("properties") or {}).items():
        if isinstance(field, dict):
            yield f"properties[{name}]", field
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield name, schema[name]


def rule_definition_problems(schema: Object, path: str) -> Iterator[Cause]:
    """Rules of a definition that do not compile."""
    for index, rule in enumerate(schema.get(_RULES) or ()):
        try:
            compile_rule(rule.get("rule") or "")
        except CelCompileError as error:
            shown = orjson.dumps(rule.get("rule")).decode()
            yield Cause(f"{path}.{_RULES}[{index}].rule", "Invalid", f"{shown}: {error}")
    for step, inner in _inner(schema):
        yield from rule_definition_problems(inner, f"{path}.{step}")


def rule_problems(schema: Object, value: Any, old: Any = None, path: FieldPath = _WHOLE) -> Iterator[Cause]:
    """The violated rules.

    Args:
        schema: Of the object.
        value: The object, which has the shape that the schema wants.
        old: The old value, for rules about changes; None skips these rules.
        path: The path in the whole object.
    """
    for rule in schema.get(_RULES) or ():
        yield from _broken(rule, value, old, path)
    if isinstance(value, list):
        # Without keys, items of a list have no old values, so rules about changes do not apply to them.
        for index, item in enumerate(value):
            yield from rule_problems(schema.get("items") or {}, item, None, path / index)
    elif isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            field = fields.get(name) or (others if isinstance(others, dict) else {})
            before = old.get(name) if isinstance(old, dict) else None
            yield from rule_problems(field, item, before, path / name)


def _broken(rule: Object, value: Any, old: Any, path: FieldPath) -> Iterator[Cause]:
    text = rule["rule"]
    about_changes = bool(_OF_CHANGES.search(text))
    if about_changes and old is None:
        return
    says, _ = compile_rule(text).holds(Map({"self": value_of(value), "oldSelf": value_of(old)}))
    if says is True:
        return
    why = rule.get("message") or f"failed rule: {text}" if says is False else str(says)
    # A list or an object as bad value is not shown.
    shown = "" if isinstance(value, dict | list) else f"{orjson.dumps(value).decode()}: "
    yield Cause(f"{path or '<nil>'}{rule.get('fieldPath') or ''}", "Invalid", f"{shown}{why}")
