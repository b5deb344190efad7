"""Applying: what a stored object becomes when `kubectl apply` sends a manifest of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.configuration.change import APPLIED
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["apply_manifest"]

_MOST_DEPTH = 40
"""Deeper mappings are replaced whole; no object of Kubernetes comes near it."""


def apply_manifest(stored: Object | None, manifest: Object) -> Object:
    """The stored object after a manifest was applied.

    As `kubectl apply` does it: mappings are merged, everything else is replaced, a null removes a field, and so does
    leaving out what was applied before (`last-applied-configuration`). The status stays, because the API server ignores
    it in what users apply; without a stored object, that of the manifest counts.

    Source: k8s.io/apimachinery pkg/util/jsonmergepatch; all lists count as atomic, as those of taints and of custom
    resources are.
    """
    if stored is None:
        created: Object = _without_nulls(manifest)
        return created
    sent = {key: value for key, value in manifest.items() if key != "status"}
    merged: Object = _merge(stored, sent, _last_applied(stored), 0)
    return merged


def _last_applied(stored: Object) -> Any:
    """The manifest that was applied last; None if the object was not applied, or the note cannot be read."""
    note = lookup(stored, APPLIED)
    try:
        last: Any = json.loads(note) if isinstance(note, str) else None
    except (ValueError, RecursionError):
        return None
    return last


def _merge(stored: Any, sent: Any, last: Any, depth: int) -> Any:
    if not isinstance(sent, dict) or not isinstance(stored, dict) or depth > _MOST_DEPTH:
        return _without_nulls(sent)
    before = last if isinstance(last, dict) else {}
    kept = {
        key: value
        for key, value in stored.items()
        if (key in sent and sent[key] is not None) or (key not in sent and key not in before)
    }
    for key, value in sent.items():
        if value is not None:
            kept[key] = _merge(stored.get(key), value, before.get(key), depth + 1)
    return kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
