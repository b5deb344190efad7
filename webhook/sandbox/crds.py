"""Custom resource definitions: what makes one complete, and what its schema says about objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.paths import FieldPath, lookup
from webhook.sandbox.statuses import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.kubernetes.objects import Object

__all__ = ["CRD", "definition_problems", "established", "schema_problems"]

CRD = "CustomResourceDefinition"


def definition_problems(definition: Object) -> list[Cause]:
    """What is missing in a CustomResourceDefinition, of what the sandbox needs to serve it."""
    causes = [
        Cause(f"spec.{'.'.join(path)}", "Required", "")
        for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind"))
        if not isinstance(lookup(definition, ("spec", *path)), str)
    ]
    versions = lookup(definition, ("spec", "versions"))
    named = isinstance(versions, list) and all(
        isinstance(version, dict) and isinstance(version.get("name"), str) for version in versions
    )
    if not versions or not named:
        causes.append(Cause("spec.versions", "Required", "at least one version, each with a name"))
    if causes:
        return causes
    expected = f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"
    name = definition["metadata"].get("name", "")
    if name != expected:
        shown = f'"{name}": must be spec.names.plural+"."+spec.group'
        causes.append(Cause("metadata.name", "Invalid", shown))
    if definition["spec"]["scope"] not in ("Cluster", "Namespaced"):
        shown = f'"{definition["spec"]["scope"]}": supported values: "Cluster", "Namespaced"'
        causes.append(Cause("spec.scope", "NotSupported", shown))
    return causes


def established(definition: Object, now: str) -> Object:
    """The definition with the status of one that is served; its names are never in conflict here."""
    names = definition["spec"]["names"]
    kind = names["kind"]
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
    before = definition.get("status") or {}
    conditions = before.get("conditions") or [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    status = {
        **before,
        "conditions": [{"lastTransitionTime": now, **condition} for condition in conditions],
        "acceptedNames": names,
        "storedVersions": list(dict.fromkeys([*(before.get("storedVersions") or ()), *stored])),
    }
    return {**definition, "spec": {**definition["spec"], "names": names}, "status": status}


def schema_problems(schema: Object | None, document: Object) -> list[Cause]:
    """Where an object does not meet the schema of its definition.

    Types, `required`, `enum`, `pattern`, bounds and lengths are looked at; CEL rules, `anyOf` and its like and unknown
    fields are not.

    Source of the words: kube-openapi pkg/validation/validate, as seen on Kubernetes 1.36.
    """
    return list(_problems(schema or {}, document, FieldPath()))


def _problems(schema: Object, value: Any, path: FieldPath) -> Iterator[Cause]:
    if value is None and schema.get("nullable"):
        return
    if (problem := _type_problem(schema, value, path)) is not None:
        yield problem
        return
    if (choices := schema.get("enum")) and value not in choices:
        shown = ", ".join(_shown(choice) for choice in choices)
        yield Cause(str(path), "NotSupported", f"{_shown(value)}: supported values: {shown}")
    for keyword, (broken, words) in _LIMITS.items():
        if keyword in schema and broken(value, schema[keyword]):
            text = words.format(schema[keyword])
            yield Cause(str(path), "Invalid", f"{_shown(value)}: {path} in body should {text}")
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield Cause(str(path), "TooLong", f"may not be more than {schema['maxLength']} bytes")
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        yield Cause(str(path), "TooMany", f"{len(value)}: must have at most {schema['maxItems']} items")
    if isinstance(value, dict):
        yield from _field_problems(schema, value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(schema.get("items") or {}, item, path / index)


def _field_problems(schema: Object, value: Object, path: FieldPath) -> Iterator[Cause]:
    fields = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause(str(path / name), "Required", "")
    others = schema.get("additionalProperties")
    for name, item in value.items():
        if path or name not in ("apiVersion", "kind", "metadata"):
            yield from _problems(fields.get(name) or (others if isinstance(others, dict) else {}), item, path / name)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _type_problem(schema: Object, value: Any, path: FieldPath) -> Cause | None:
    wanted = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [schema.get("type")]
    if wanted == [None] or any(_TYPES[name](value) for name in wanted if name in _TYPES):
        return None
    found = "null" if value is None else next(name for name, fits in _TYPES.items() if fits(value))
    if value is None:
        return Cause(str(path), "Required", "")
    named = ",".join(str(name) for name in wanted)
    return Cause(str(path), "TypeInvalid", f'"{found}": {path} in body must be of type {named}: "{found}"')


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_LIMITS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "pattern": (lambda value, pattern: isinstance(value, str) and not re.search(pattern, value), "match '{}'"),
    "minLength": (lambda value, least: isinstance(value, str) and len(value) < least, "be at least {} chars long"),
    "minimum": (lambda value, least: _is_number(value) and value < least, "be greater than or equal to {}"),
    "maximum": (lambda value, most: _is_number(value) and value > most, "be less than or equal to {}"),
    "minItems": (lambda value, least: isinstance(value, list) and len(value) < least, "have at least {} items"),
}


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()
