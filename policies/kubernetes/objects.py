"""Objects: raw JSON as the API server writes it."""

from __future__ import annotations

from typing import Any

from policies.kubernetes.paths import lookup

__all__ = ["Object", "name_of", "namespace_of"]

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
