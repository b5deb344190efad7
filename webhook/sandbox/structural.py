"""What the schema of a custom resource does to an object before it is judged: unknown fields go, and defaults come.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema (pruning, defaulting), as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["filled", "pruned"]

_ALWAYS = ("apiVersion", "kind", "metadata")
"""Fields of every object, of which a schema need not speak."""
_KEEPS_ALL = "x-kubernetes-preserve-unknown-fields"


def pruned(schema: Object, document: Object) -> tuple[Object, list[str]]:
    """The object without the fields that the schema does not know, and where they were, in order."""
    unknown: list[str] = []
    known = _pruned({**schema, "properties": {**(schema.get("properties") or {}), **_opaque()}}, document, "", unknown)
    return known, sorted(unknown)


def _opaque() -> Object:
    return {name: {_KEEPS_ALL: True} for name in _ALWAYS}


def _pruned(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {_KEEPS_ALL: schema.get(_KEEPS_ALL)}
        return [_pruned(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    kept = {}
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if name in fields:
            kept[name] = _pruned(fields[name], item, at, unknown)
        elif isinstance(others, dict):
            kept[name] = _pruned(others, item, at, unknown)
        elif others is True or schema.get(_KEEPS_ALL):
            kept[name] = item
        else:
            unknown.append(at)
    return kept


def filled(schema: Object, value: Any) -> Any:
    """The value with the schema's defaults; null counts as left out where it cannot be null."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [filled(schema["items"], item) for item in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    result = dict(value)
    for name, field in fields.items():
        if "default" in field and (name not in result or (result[name] is None and not field.get("nullable"))):
            result[name] = copy.deepcopy(field["default"])
    for name, item in result.items():
        field = fields.get(name) or (others if isinstance(others, dict) else None)
        if field:
            result[name] = filled(field, item)
    return result
