"""Applying: what a stored object becomes when a manifest of it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["apply_manifest"]

_MERGED_KINDS = frozenset({"Namespace", "Node"})
"""Kinds whose objects no manifest has whole: others write their labels and taints too."""
_MOST_DEPTH = 40
"""Deeper mappings are replaced whole; no object of Kubernetes comes near it."""


def apply_manifest(stored: Object | None, manifest: Object) -> Object:
    """The stored object after a manifest was applied.

    A manifest of a Node or Namespace is merged into the stored object, and a null removes a field. Every other manifest
    is the whole object: a field that it leaves out is gone, as with `kubectl apply` after the object was applied before.
    The status stays, because the API server ignores it in what users apply; without a stored object, that of the manifest
    counts.
    """
    if stored is None:
        created: Object = _merge({}, manifest, 0)
        return created
    sent = {key: value for key, value in manifest.items() if key != "status"}
    if manifest.get("kind") in _MERGED_KINDS:
        merged: Object = _merge(stored, sent, 0)
        return merged
    metadata = _merge(stored.get("metadata"), sent.get("metadata"), 0)
    status = {"status": stored["status"]} if "status" in stored else {}
    return {**_merge({}, sent, 0), "metadata": metadata, **status}


def _merge(stored: Any, sent: Any, depth: int) -> Any:
    """A value with another one merged into it: mappings by field, nulls remove, the rest is replaced."""
    if not isinstance(sent, dict) or depth > _MOST_DEPTH:
        return sent
    before = stored if isinstance(stored, dict) else {}
    kept = {key: value for key, value in before.items() if key not in sent}
    return kept | {key: _merge(before.get(key), value, depth + 1) for key, value in sent.items() if value is not None}
