"""Strategic merge patches of built-in kinds, which merge lists by the keys of their items.

Source: the patchStrategy and patchMergeKey tags in kubernetes/api; k8s.io/apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_ABSENT = object()


class BadPatch(ValueError):  # noqa: N818 - the name is a statement
    """A document is not a valid patch; the text says why."""


class PatchFailed(Exception):  # noqa: N818 - the name is a statement
    """A patch does not apply to the document; the text is that of gopkg.in/evanphx/json-patch.v4."""


def apply_json_patch(document: Any, operations: Any) -> Any:
    """The document after a JSON Patch; the arguments are not changed.

    Raises:
        BadPatch: The operations are not a JSON Patch.
        PatchFailed: One of them does not apply.
    """
    if not isinstance(operations, list):
        raise BadPatch("a JSON Patch is a list of operations")
    document = copy.deepcopy(document)
    for operation in operations:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise BadPatch("an operation of a JSON Patch is an object")
    name = operation.get("op")
    apply = _OPERATIONS.get(name) if isinstance(name, str) else None
    if apply is None:
        raise PatchFailed(f"Unexpected kind: {name}")
    path = operation.get("path")
    if path is None:
        raise PatchFailed(f"{name} operation failed to decode path: missing value")
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise BadPatch(f"the path {path!r} of a JSON Patch is not a JSON Pointer")
    return apply(document, path, operation)


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _find(document: Any, steps: list[str]) -> Any:
    """The value at the end of the steps, or _ABSENT."""
    for step in steps:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and _is_index(step) and int(step) < len(document):
            document = document[int(step)]
        else:
            return _ABSENT
    return document


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdecimal() and (step == "0" or not step.startswith("0"))


def _parent(document: Any, path: str, operation: str) -> tuple[Any, str]:
    """The container that a path's last step is in, and that step."""
    steps = _steps(path)
    parent = _find(document, steps[:-1])
    if not isinstance(parent, dict | list):
        shown = path if operation == "replace" else f'"{path}"'
        raise PatchFailed(f"{operation} operation does not apply: doc is missing path: {shown}: missing value")
    return parent, steps[-1]


def _index(parent: list[Any], step: str, path: str, operation: str, *, end: int) -> int:
    """The place in a list that a step names, below `end`."""
    if not _is_index(step) or int(step) >= end:
        raise PatchFailed(f"error in {operation} for path: '{path}': Unable to access invalid index: {step}")
    return int(step)


def _put(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    parent, step = _parent(document, path, "add")
    if isinstance(parent, dict):
        parent[step] = value
    elif step == "-":
        parent.append(value)
    else:
        parent.insert(_index(parent, step, path, "add", end=len(parent) + 1), value)
    return document


def _take(document: Any, path: str) -> Any:
    if not path:
        raise PatchFailed('remove operation does not apply: doc is missing path: "": missing value')
    parent, step = _parent(document, path, "remove")
    if isinstance(parent, list):
        del parent[_index(parent, step, path, "remove", end=len(parent))]
    elif step in parent:
        del parent[step]
    else:
        raise PatchFailed(
            f"error in remove for path: '{path}': Unable to remove nonexistent key: {step}: missing value"
        )
    return document


def _replace(document: Any, path: str, operation: dict[str, Any]) -> Any:
    value = copy.deepcopy(operation.get("value"))
    if not path:
        return value
    parent, step = _parent(document, path, "replace")
    if isinstance(parent, list):
        parent[_index(parent, step, path, "replace", end=len(parent))] = value
    else:
        # RFC 6902 requires the key to exist; API servers do not (tried on Kubernetes 1.36.2).
        parent[step] = value
    return document


def _source(document: Any, operation: dict[str, Any]) -> tuple[str, Any]:
    """The source of `copy` and `move`, and its value; `copy` reads a missing key of an object as null."""
    path = operation.get("from")
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise BadPatch(f"an operation {operation['op']!r} of a JSON Patch needs a from")
    steps = _steps(path)
    value = _find(document, steps)
    if value is _ABSENT and operation["op"] == "copy" and isinstance(_find(document, steps[:-1]), dict):
        return path, None
    if value is _ABSENT:
        raise PatchFailed(
            f"{operation['op']} operation does not apply: doc is missing from path: {path}: missing value"
        )
    return path, value


def _move(document: Any, path: str, operation: dict[str, Any]) -> Any:
    source, value = _source(document, operation)
    if path.startswith(f"{source}/"):
        raise PatchFailed(f"move operation does not apply: {source} would be moved into itself")
    return document if source == path else _put(_take(document, source), path, value)


def _test(document: Any, path: str, operation: dict[str, Any]) -> Any:
    found = _find(document, _steps(path))
    # As in the API server, a missing value passes a test for null.
    if not _same(None if found is _ABSENT else found, operation.get("value")):
        raise PatchFailed(f"testing value {path} failed: test failed")
    return document


def _same(one: Any, other: Any) -> bool:
    """True if two values are the same JSON; in Python, `True` equals 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


_OPERATIONS: dict[str, Callable[[Any, str, dict[str, Any]], Any]] = {
    # As in the API server, a missing value is null.
    "add": lambda document, path, operation: _put(document, path, copy.deepcopy(operation.get("value"))),
    "remove": lambda document, path, _operation: _take(document, path),
    "replace": _replace,
    "copy": lambda document, path, operation: _put(document, path, copy.deepcopy(_source(document, operation)[1])),
    "move": _move,
    "test": _test,
}


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """The document after a JSON Merge Patch; the arguments are not changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"

_NAMED = (
    "containers env ephemeralContainers imagePullSecrets initContainers matchConditions resourceClaims"
    " resourceClaimStatuses schedulingGates secrets variables volumes webhooks"
)
_KEYS: dict[tuple[str, str] | str, str] = {
    **dict.fromkeys(_NAMED.split(), "name"),
    "addresses": "type",
    "conditions": "type",
    "hostAliases": "ip",
    "ownerReferences": "uid",
    "ports": "containerPort",
    ("spec", "ports"): "port",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
}
"""The keys of the items of merging lists, by the field of the list, or by that and the field above it."""
_SETS = frozenset([("metadata", "finalizers")])
"""Lists of strings that merge: the items of the patch are added."""
_REPLACED = ("spec", "selector")
"""The object that a patch of a PodDisruptionBudget replaces; selectors of other kinds, such as a Service's, merge."""


def apply_strategic_patch(document: Any, patch: Any) -> Any:
    """The document after a strategic merge patch; the arguments are not changed.

    Raises:
        BadPatch: A directive of the patch is invalid.
    """
    of_budget = isinstance(document, dict) and document.get("kind") == "PodDisruptionBudget"
    return _merge(document, _with_replacement(patch, _REPLACED) if of_budget else patch, "")


def _with_replacement(patch: Any, path: Sequence[str]) -> Any:
    """The patch with the directive to replace the object at a path, if the patch changes it."""
    if not isinstance(patch, dict):
        return patch
    if not path:
        return {**patch, _PATCH: "replace"}
    return {**patch, path[0]: _with_replacement(patch[path[0]], path[1:])} if path[0] in patch else patch


def _merge(old: Any, patch: Any, field: str) -> Any:
    """The new value of a field, except for lists."""
    if not isinstance(patch, dict):
        return _clean(patch)
    old = old if isinstance(old, dict) else {}
    match patch.get(_PATCH):
        case "replace":
            return _clean(patch)
        case "delete":
            return {}
        case None | "merge":
            return _merge_fields(old, patch, field)
        case other:
            raise BadPatch(f"$patch is {other}; it can be replace, merge or delete")


def _merge_fields(old: dict[str, Any], patch: dict[str, Any], field: str) -> dict[str, Any]:
    retained = _texts(patch, _RETAIN) if _RETAIN in patch else list(old)
    merged = {key: value for key, value in old.items() if key in retained}
    changes = [key for key in patch if not key.startswith("$")]
    listed = [key.partition("/")[2] for key in patch if key.startswith((_ORDER, _DELETE))]
    for key in dict.fromkeys([*changes, *listed]):
        value = _new_value(merged.get(key), patch, field, key)
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _new_value(old: Any, patch: dict[str, Any], field: str, key: str) -> Any:
    """One field of an object after a patch; None if it is removed."""
    new = patch.get(key, [])
    if new is None:
        return None
    if not isinstance(new, list):
        return _merge(old, new, key)
    items = old if isinstance(old, list) else []
    order = patch.get(_ORDER + key)
    if name := _KEYS.get((field, key)) or _KEYS.get(key):
        return _merged_items(items, new, order, name, key)
    if (field, key) in _SETS:
        gone = _texts(patch, _DELETE + key)
        kept = [item for item in items if item not in gone]
        return _in_order([*kept, *(item for item in new if item not in kept)], kept, order)
    return _clean(new) if key in patch else old


def _merged_items(old: list[Any], patch: list[Any], order: Any, name: str, field: str) -> list[Any]:
    """A list whose items merge by the value that they have under a name."""
    if any(not isinstance(item, dict) for item in patch):
        raise BadPatch(f"an item of {field} must be an object, because the items are merged by their {name}")
    if any(item.get(_PATCH) == "replace" and len(item) == 1 for item in patch):
        return [_clean(item) for item in patch if item.get(_PATCH) != "replace"]
    merged = {item[name]: item for item in old if isinstance(item, dict) and isinstance(item.get(name), str | int)}
    before = list(merged)
    for item in patch:
        if not isinstance(item.get(name), str | int):
            raise BadPatch(f"an item of {field} has no {name}, by which the items are merged")
        if item.get(_PATCH) == "delete":
            merged.pop(item[name], None)
        else:
            merged[item[name]] = _merge(merged.get(item[name]), item, field)
    return [merged[key] for key in _in_order(list(merged), before, order, name)]


def _in_order(items: Sequence[Any], before: Sequence[Any], order: Any, name: str = "") -> list[Any]:
    """Items in the order of a patch; items that it does not name stay before their successors.

    Args:
        items: The items, or the values of their keys.
        before: The same for the items before the patch.
        order: The order in the patch: the items, or objects with their keys.
        name: The field of the key.
    """
    if not isinstance(order, list):
        return list(items)
    wanted = [item.get(name) if isinstance(item, dict) else item for item in order]
    named = [item for item in wanted if item in items]
    others = [item for item in items if item not in named]
    result: list[Any] = []
    for item in dict.fromkeys(named):
        while others and item in before and others[0] in before and before.index(others[0]) < before.index(item):
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _texts(patch: dict[str, Any], directive: str) -> list[str]:
    values = patch.get(directive) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadPatch(f"{directive} must be a list of strings")
    return values


def _clean(value: Any) -> Any:
    """A new value, without the directives and nulls of a patch."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if not key.startswith("$") and item is not None}
    return [_clean(item) for item in value] if isinstance(value, list) else value
