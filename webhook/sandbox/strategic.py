"""Strategic merge patches of built-in kinds, which merge lists by the keys of their items.

Source: the patchStrategy and patchMergeKey tags in kubernetes/api; k8s.io/apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox.patches import BadPatch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["apply_strategic_patch"]

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
_BUDGET = "PodDisruptionBudget"
_REPLACED = ("spec", "selector")
"""The object that a patch of a PodDisruptionBudget replaces; selectors of other kinds, such as a Service's, merge."""


def apply_strategic_patch(document: Any, patch: Any) -> Any:
    """The document after a strategic merge patch; the arguments are not changed.

    Raises:
        BadPatch: A directive of the patch is invalid.
    """
    of_budget = isinstance(document, dict) and document.get("kind") == _BUDGET
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
