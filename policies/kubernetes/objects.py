"""Objects: raw JSON as the API server writes it, and its common fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup, mappings_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


__all__ = [
    "DEFAULT_NAMESPACE",
    "Object",
    "controller_of",
    "generate_name_of",
    "has_ended",
    "in_namespace",
    "name_of",
    "namespace_of",
    "uid_of",
    "with_conditions",
]

Object = dict[str, Any]
"""A Kubernetes object. Nothing is re-serialised through typed models, so no newer field is ever dropped."""
DEFAULT_NAMESPACE = "default"
"""The namespace of objects and contexts that name none."""


def name_of(document: Object) -> str:
    """`metadata.name`; empty if it is missing."""
    name = lookup(document, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def generate_name_of(document: Object) -> str:
    """`metadata.generateName`; empty if it is missing. Several objects may have the same."""
    name = lookup(document, ("metadata", "generateName"))
    return name if isinstance(name, str) else ""


def namespace_of(document: Object) -> str:
    """`metadata.namespace`; empty if it is missing."""
    namespace = lookup(document, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) else ""


def uid_of(document: Object) -> str:
    """`metadata.uid`; empty if it is missing, as in manifests."""
    uid = lookup(document, ("metadata", "uid"))
    return uid if isinstance(uid, str) else ""


def has_ended(pod: Object) -> bool:
    """True if a pod's containers have ended for good."""
    return lookup(pod, ("status", "phase")) in ("Succeeded", "Failed")


def controller_of(document: Object) -> Object | None:
    """The ownerReference of the controller, of which an object has at most one; None if it has none."""
    owners = mappings_at(document, ("metadata", "ownerReferences"))
    return next((owner for owner in owners if owner.get("controller") is True), None)


def with_conditions(before: Sequence[Object], conditions: Iterable[Object], generation: int, time: str) -> list[Object]:
    """The conditions of a status with some replaced or added, each with the time of its last transition.

    Args:
        before: The stored conditions.
        conditions: The conditions to set.
        generation: The generation of the spec that they are about.
        time: Now, in RFC 3339.
    """
    after = list(before)
    for condition in conditions:
        place = next(
            (index for index, each in enumerate(after) if lookup(each, ("type",)) == condition["type"]), len(after)
        )
        known = after[place] if place < len(after) else {}
        since = known.get("lastTransitionTime") if known.get("status") == condition["status"] else None
        after[place : place + 1] = [
            {**condition, "observedGeneration": generation, "lastTransitionTime": since or time},
        ]
    return after


def in_namespace(document: Object, namespace: str) -> Object:
    """The object with a namespace filled in if it has none, as the API server does before admission."""
    metadata = document.get("metadata")
    if not namespace or not isinstance(metadata, dict | None) or namespace_of(document):
        return document
    return {**document, "metadata": {**(metadata or {}), "namespace": namespace}}
