"""Stored objects in the shape of their manifests, so that a diff shows what webhooks changed and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["as_written"]

_OWN_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp")
"""What every stored object gets, and another one each time."""


def as_written(stored: Object, written: Object, plain: Object) -> Object:
    """A stored object as its author would have written it: what the API server fills in by itself is left out.

    Args:
        stored: The object as it is kept.
        written: Its manifest.
        plain: The manifest as it would be stored without webhooks.
    """
    metadata = {key: value for key, value in stored["metadata"].items() if key not in _OWN_METADATA}
    document = {key: value for key, value in stored.items() if key != "status"}
    shown: Object = _shown({**document, "metadata": metadata}, written, plain)
    return shown


def _shown(stored: Any, written: Any, plain: Any) -> Any:
    """A value as it was written where nothing changed it; else its fields in the order of the manifest."""
    if stored == plain and written is not None:
        return written
    if isinstance(stored, dict):
        written, plain = (value if isinstance(value, dict) else {} for value in (written, plain))
        return {
            key: _shown(stored[key], written.get(key), plain.get(key))
            for key in dict.fromkeys([*written, *stored])
            if key in stored and (key in written or key not in plain or stored[key] != plain[key])
        }
    if isinstance(stored, list):
        written, plain = (value if isinstance(value, list) else [] for value in (written, plain))
        filled_in = plain[len(written) :]
        pairs = {_place(pair[0], index): pair for index, pair in enumerate(zip(written, plain, strict=False))}
        return [
            _shown(item, *pairs.get(_place(item, index), (None, None)))
            for index, item in enumerate(stored)
            if item not in filled_in
        ]
    return stored


def _place(item: Any, index: int) -> str | int:
    """What tells an item of a list from the others: its name, or where it has none its index."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else index
