"""Objects: raw JSON as the API server writes it."""

from __future__ import annotations

from typing import Any

from policies.kubernetes.paths import lookup

__all__ = ["Object", "controller_of", "has_ended", "name_of", "namespace_of"]

Object = dict[str, Any]
"""A Kubernetes object. Nothing is re-serialised through typed models, so no newer field is ever dropped."""


def name_of(document: Object) -> str:
    """`metadata.name`, empty where there is none."""
    name = lookup(document, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def namespace_of(document: Object) -> str:
    """`metadata.namespace`, empty where there is none."""
    namespace = lookup(document, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) else ""


def has_ended(pod: Object) -> bool:
    """Whether a pod's containers have ended for good."""
    return lookup(pod, ("status", "phase")) in ("Succeeded", "Failed")


def controller_of(document: Object) -> Object | None:
    """The ownerReference that says it is the controller, of which an object has one at most; None where there is none."""
    owners = lookup(document, ("metadata", "ownerReferences"))
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") is True:
            return owner
    return None
