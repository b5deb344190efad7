"""Variables that `envFrom` copies from ConfigMaps and Secrets, if these can be read."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.access.checks import ACCESS, EXEMPT
from policies.access.environment import parse_device_list
from policies.access.subject import VISIBLE_DEVICES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject
    from policies.checks import Problem

__all__ = ["sourced_variable"]

_KINDS = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


class SourcedVariable(NamedTuple):
    """A variable from a ConfigMap or Secret."""

    path: FieldPath
    """Of the reference in the container."""
    kind: str
    """`ConfigMap` or `Secret`."""
    source: str
    """Its name."""
    value: str


def sourced_variable(container: Container, variable: str, subject: Subject) -> SourcedVariable | None:
    """A variable by the last visible source of `envFrom` that sets it; None if no source does.

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
                return SourcedVariable(container.path / "envFrom" / index / field, kind, name, value)
    return None


def _key(variable: str, prefix: Any) -> str | None:
    """The key that becomes the variable; None if the prefix rules the variable out."""
    start = prefix if isinstance(prefix, str) else ""
    return variable.removeprefix(start) if variable.startswith(start) else None


def _value(kind: str, document: Any, key: str) -> str | None:
    value = lookup(document, ("data", key))
    if kind == "Secret":
        plain = lookup(document, ("stringData", key))
        value = plain if isinstance(plain, str) else _decoded_text(value)
    return value if isinstance(value, str) else None


def _decoded_text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value).decode(errors="replace")
    except (binascii.Error, ValueError):
        return value


@ACCESS.rule(
    "GA607",
    "NVIDIA_VISIBLE_DEVICES must not come from a ConfigMap or Secret",
    default=Severity.WARN,
    remedy=f"remove it there, or set it to void in the container's env, which wins; {EXEMPT}",
    source="k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
    suspicion=True,
)
def devices_from_elsewhere(subject: Subject) -> Iterator[Problem]:
    """`envFrom` sets every key of a ConfigMap or Secret as a variable, also NVIDIA_VISIBLE_DEVICES.

    The values at the start of the container count. They can change after the review, and a webhook may not see them at
    all, so this only warns, in every mode. `env` has precedence over `envFrom`, and a later source over an earlier one.
    """
    for container in subject.containers:
        if "envFrom" not in container.fields or container.variable(VISIBLE_DEVICES) is not None:
            continue
        found = sourced_variable(container, VISIBLE_DEVICES, subject)
        if found is not None and parse_device_list(found.value):
            who = "" if container.requests_gpu else f", which {container.lack}"
            text = f"{found.kind} {shown(found.source)} sets NVIDIA_VISIBLE_DEVICES in {container.title}{who}"
            yield problem(found.path, text)
