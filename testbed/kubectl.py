"""Client-side `kubectl apply`.

Source: k8s.io/kubectl pkg/cmd/apply, as described in its documentation; patches seen with `kubectl -v=9`.
"""

from __future__ import annotations

import copy
import json
from typing import Any

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WRITE = {"fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"}
"""The query of kubectl's writes."""

_BY_NAME = ("containers", "initContainers", "volumes", "webhooks")
"""Lists that a strategic merge patch merges by names."""


def with_last_applied(document: dict[str, Any]) -> dict[str, Any]:
    """A manifest with itself in an annotation."""
    marked = copy.deepcopy(document)
    marked["metadata"].setdefault("annotations", {})[LAST_APPLIED] = f"{json.dumps(document, separators=(',', ':'))}\n"
    return marked


def patch_of(live: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """The strategic merge patch from the stored object to a manifest."""
    last = json.loads(live["metadata"].get("annotations", {}).get(LAST_APPLIED, "{}"))
    return difference(live, with_last_applied(document), last)


def difference(live: dict[str, Any], wanted: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    """The strategic merge patch from `live` to `wanted`; `last` was applied before."""
    last = last or {}
    patch: dict[str, Any] = {key: None for key in last if key not in wanted}
    for key, value in wanted.items():
        if key not in live:
            patch[key] = value
        elif key in _BY_NAME and isinstance(value, list):
            patch.update(_list_difference(key, live[key], value, last.get(key) or []))
        elif isinstance(value, dict) and isinstance(live[key], dict):
            before = last.get(key)
            if inner := difference(live[key], value, before if isinstance(before, dict) else {}):
                patch[key] = inner
        elif value != live[key]:
            patch[key] = value
    return patch


def _list_difference(key: str, live: list[Any], wanted: list[Any], last: list[Any]) -> dict[str, Any]:
    stored, before = ({item["name"]: item for item in items} for items in (live, last))
    items = []
    for item in wanted:
        name = item["name"]
        if inner := difference(stored.get(name, {}), item, before.get(name, {})):
            items.append({**inner, "name": name})
    if not items:
        return {}
    return {f"$setElementOrder/{key}": [{"name": item["name"]} for item in wanted], key: items}
