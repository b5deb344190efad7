"""Decodes objects of requests: prunes and defaults custom resources by their schema.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from webhook.sandbox.statuses import Cause, bad_request, invalid

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call
    from webhook.sandbox.kinds import Kind

__all__ = ["decode", "decode_mutated", "prune"]


def decode(kind: Kind, document: Object, call: Call) -> Object:
    """The object by the schema of its kind; warns of unknown fields.

    Raises:
        Refused: It has unknown fields, and the request has `fieldValidation: Strict`.
    """
    if kind.schema is None:
        return document
    known, unknown = prune(kind.schema, document)
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
    decoded: Object = _fill_defaults(kind.schema, known)
    return decoded


def decode_mutated(kind: Kind, document: Object) -> Object:
    """The object after mutating webhooks, decoded without warnings."""
    if kind.schema is None:
        return document
    decoded: Object = _fill_defaults(kind.schema, prune(kind.schema, document)[0])
    return decoded


_ALWAYS = ("apiVersion", "kind", "metadata")
"""Fields of every object, which a schema need not contain."""
_KEEPS_ALL = "x-kubernetes-preserve-unknown-fields"


def prune(schema: Object, document: Object) -> tuple[Object, list[str]]:
    """The object without unknown fields, and the sorted paths of these."""
    unknown: list[str] = []
    always = {name: {_KEEPS_ALL: True} for name in _ALWAYS}
    known = _prune({**schema, "properties": {**(schema.get("properties") or {}), **always}}, document, "", unknown)
    return known, sorted(unknown)


def _prune(schema: Object, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {_KEEPS_ALL: schema.get(_KEEPS_ALL)}
        return [_prune(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    kept = {}
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if name in fields:
            kept[name] = _prune(fields[name], item, at, unknown)
        elif isinstance(others, dict):
            kept[name] = _prune(others, item, at, unknown)
        elif others is True or schema.get(_KEEPS_ALL):
            kept[name] = item
        else:
            unknown.append(at)
    return kept


def _fill_defaults(schema: Object, value: Any) -> Any:
    """The value with the schema's defaults, also for null if it is not nullable."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_fill_defaults(schema["items"], item) for item in value]
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
            result[name] = _fill_defaults(field, item)
    return result
