"""Validation of CustomResourceDefinitions, and of custom resources by their schema and its CEL rules.

`self` of a rule is dynamic: a type error that a real server finds in the definition is found here in the evaluation.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from policies.cel import CelCompileError, Map, compile_rule, value_of
from policies.kubernetes.objects import FieldPath, lookup
from webhook.sandbox.statuses import Cause, unsupported_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.kubernetes.objects import Object


_RULES = "x-kubernetes-validations"
_WHOLE = FieldPath()
_OF_CHANGES = re.compile(r"\boldSelf\b")


def has_rules(schema: Object) -> bool:
    """True if a schema contains a rule."""
    return bool(schema.get(_RULES)) or any(has_rules(inner) for _, inner in _inner(schema))


def _inner(schema: Object) -> Iterator[tuple[str, Object]]:
    """The schemas in a schema, each with its step in paths of definitions."""
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


CRD = "CustomResourceDefinition"


def definition_problems(definition: Object) -> list[Cause]:
    """Problems of a CustomResourceDefinition that the sandbox could not serve."""
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
        causes.append(unsupported_value("spec.scope", definition["spec"]["scope"], ("Cluster", "Namespaced")))
    for version in versions:
        schema = lookup(version, ("schema", "openAPIV3Schema"))
        if isinstance(schema, dict):
            causes += rule_definition_problems(schema, "spec.validation.openAPIV3Schema")
    return causes


def with_served_status(definition: Object, now: str) -> Object:
    """The definition with the status of a served one; names never conflict in the sandbox."""
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


def schema_problems(schema: Object | None, document: Object, old: Object | None = None) -> list[Cause]:
    """Violations of the schema by an object.

    Checks types, `required`, `enum`, `pattern`, bounds, lengths, keys of lists and CEL rules; not `anyOf` and the like,
    `format` and `multipleOf`.

    Source of the words: kube-openapi pkg/validation/validate, as seen on Kubernetes 1.36.2.
    """
    if schema is None:
        return []
    causes = list(_problems(schema, document, FieldPath()))
    if not has_rules(schema):
        return causes
    if any(cause.type in _BLOCKING for cause in causes):
        return [*causes, _RULES_NOT_CHECKED]
    return [*causes, *rule_problems(schema, document, old)]


_BLOCKING = frozenset(["Required", "TypeInvalid", "NotSupported", "TooLong", "TooMany"])
_RULES_NOT_CHECKED = Cause(
    "<nil>",
    "Invalid",
    "null: some validation rules were not checked because the object was invalid; correct the existing errors to"
    " complete validation",
)


def _problems(schema: Object, value: Any, path: FieldPath) -> Iterator[Cause]:
    if value is None and schema.get("nullable"):
        return
    if (problem := _type_problem(schema, value, path)) is not None:
        yield problem
        return
    if (choices := schema.get("enum")) and value not in choices:
        supported = ", ".join(_json(choice) for choice in choices)
        yield Cause(str(path), "NotSupported", f"{_json(value)}: supported values: {supported}")
    yield from _limit_problems(schema, value, path)
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        yield Cause(str(path), "TooMany", f"{len(value)}: must have at most {schema['maxItems']} items")
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in schema.get("required") or ():
            if name not in value:
                yield Cause(str(path / name), "Required", "")
        for name, item in value.items():
            if path or name not in ("apiVersion", "kind", "metadata"):
                field = fields.get(name) or (others if isinstance(others, dict) else {})
                yield from _problems(field, item, path / name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(schema.get("items") or {}, item, path / index)
        yield from _repetitions(schema, value, path)


def _limit_problems(schema: Object, value: Any, path: FieldPath) -> Iterator[Cause]:
    """The first violated limit; the API server reports only one."""
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield Cause(str(path), "TooLong", f"may not be more than {schema['maxLength']} bytes")
        return
    for keyword, (broken, words) in _LIMITS.items():
        if keyword in schema and broken(value, schema[keyword]):
            shown = len(value) if isinstance(value, list) else value
            yield Cause(str(path), "Invalid", f"{_json(shown)}: {path} in body should {words.format(schema[keyword])}")
            return


def _repetitions(schema: Object, items: list[Any], path: FieldPath) -> Iterator[Cause]:
    """Duplicate items of a list that is a set, or a map by keys of its items."""
    form, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    seen = []
    for index, item in enumerate(items):
        if form == "map" and isinstance(item, dict):
            identity: Any = {key: item[key] for key in keys if key in item}
        elif form == "set":
            identity = item
        else:
            continue
        if identity in seen:
            yield Cause(str(path / index), "Duplicate", _json(identity))
        seen.append(identity)


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
    if value is None:
        return Cause(str(path), "Required", "")
    found = next(name for name, fits in _TYPES.items() if fits(value))
    named = ",".join(str(name) for name in wanted)
    return Cause(str(path), "TypeInvalid", f'"{found}": {path} in body must be of type {named}: "{found}"')


_LIMITS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minLength": (lambda value, least: isinstance(value, str) and len(value) < least, "be at least {} chars long"),
    "pattern": (lambda value, pattern: isinstance(value, str) and not re.search(pattern, value), "match '{}'"),
    "minimum": (lambda value, least: _TYPES["number"](value) and value < least, "be greater than or equal to {}"),
    "maximum": (lambda value, most: _TYPES["number"](value) and value > most, "be less than or equal to {}"),
    "minItems": (lambda value, least: isinstance(value, list) and len(value) < least, "have at least {} items"),
}


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
