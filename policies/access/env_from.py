"""Variables that `envFrom` brings from ConfigMaps and Secrets, as far as they can be seen."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from policies.access.subject import Container, Subject

__all__ = ["Brought", "brought"]

_KINDS = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


class Brought(NamedTuple):
    """A variable from elsewhere."""

    path: FieldPath
    """Of the reference in the container."""
    kind: str
    """`ConfigMap` or `Secret`."""
    source: str
    """Its name."""
    value: str


def brought(container: Container, variable: str, subject: Subject) -> Brought | None:
    """A variable as the last source sets it that does; None where none does, or none that can be seen.

    Source: k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables.
    """
    for index, source in reversed(list(container.items("envFrom"))):
        for field, kind in _KINDS.items():
            name = lookup(source, (field, "name"))
            key = _key(variable, source.get("prefix"))
            if not isinstance(name, str) or key is None:
                continue
            value = _value(kind, subject.view.get(kind, name, subject.namespace), key)
            if value is not None:
                return Brought(container.path / "envFrom" / index / field, kind, name, value)
    return None


def _key(variable: str, prefix: Any) -> str | None:
    """The key that becomes the variable; None where the prefix makes something else of every key."""
    start = prefix if isinstance(prefix, str) else ""
    return variable.removeprefix(start) if variable.startswith(start) else None


def _value(kind: str, document: Any, key: str) -> str | None:
    value = lookup(document, ("data", key))
    if kind == "Secret":
        plain = lookup(document, ("stringData", key))
        value = plain if isinstance(plain, str) else _decoded(value)
    return value if isinstance(value, str) else None


def _decoded(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value).decode(errors="replace")
    except (binascii.Error, ValueError):
        return value
