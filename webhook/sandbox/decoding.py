"""Objects as they are read from requests: pruned and defaulted by the schema of their kind."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from webhook.sandbox.statuses import Cause, bad_request, invalid

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call
    from webhook.sandbox.kinds import Kind

__all__ = ["decoded", "decoded_quietly", "filled", "pruned"]


def decoded(kind: Kind, document: Object, call: Call) -> Object:
    """The object as the schema of its kind has it; what its fields tell of typing errors is told.

    Raises:
        Refused: it has fields that the schema does not know, and the request wants none.
    """
    if kind.schema is None:
        return document
    known, unknown = pruned(kind.schema, document)
    problems = [f'unknown field "{path}"' for path in unknown]
    wanted = call.options.get("fieldValidation", "Warn")
    if problems and wanted == "Strict":
        error = f"strict decoding error: {', '.join(problems)}"
        if call.options["kind"] == "PatchOptions":
            patched = json.dumps(json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
            raise invalid("", "", "", [Cause("patch", "Invalid", f"{patched}: {error}")])
        named = kind.resource.kind
        raise bad_request(f'{named} in version "{kind.resource.version}" cannot be handled as a {named}: {error}')
    if wanted == "Warn":
        for problem in problems:
            call.warn(problem)
    filled_in: Object = filled(kind.schema, known)
    return filled_in


def decoded_quietly(kind: Kind, document: Object) -> Object:
    """The same of what a webhook made of an object, of whose unknown fields nobody is told."""
    if kind.schema is None:
        return document
    filled_in: Object = filled(kind.schema, pruned(kind.schema, document)[0])
    return filled_in


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
