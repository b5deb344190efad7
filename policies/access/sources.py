"""NVIDIA_VISIBLE_DEVICES from `envFrom`: from ConfigMaps and Secrets."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from policies.access.checks import ACCESS
from policies.access.exemptions import EXEMPT
from policies.access.subject import HARMLESS, VISIBLE_DEVICES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject
    from policies.checks import Problem

_KINDS = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


@ACCESS.rule(
    "GA607",
    "NVIDIA_VISIBLE_DEVICES does not come from a ConfigMap or Secret",
    default=Severity.WARN,
    remedy=f"remove it there, or set it to void in the container's env, which wins; {EXEMPT}",
    source="k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
    wrong="""
    apiVersion: v1
    kind: Pod
    metadata: {name: train, namespace: team-a}
    spec:
      containers:
      - name: train
        image: pytorch/pytorch
        envFrom:
        - configMapRef: {name: gpus}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: gpus, namespace: team-a}
    data: {NVIDIA_VISIBLE_DEVICES: all}""",
    right="""
    apiVersion: v1
    kind: Pod
    metadata: {name: train, namespace: team-a}
    spec:
      containers:
      - name: train
        image: pytorch/pytorch
        envFrom:
        - configMapRef: {name: gpus}
        env:
        - {name: NVIDIA_VISIBLE_DEVICES, value: void}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: gpus, namespace: team-a}
    data: {NVIDIA_VISIBLE_DEVICES: all}""",
)
def devices_from_elsewhere(subject: Subject) -> Iterator[Problem]:
    """`envFrom` brings all that a ConfigMap or Secret holds, NVIDIA_VISIBLE_DEVICES among it.

    What they hold when the container starts counts. It can change after the pod was reviewed, and a webhook may not
    see it at all, so this only warns, in every mode. `env` wins over `envFrom`, and the last source over those before.
    """
    for container in subject.containers:
        if "envFrom" in container.fields and VISIBLE_DEVICES not in container.environment:
            yield from _from_sources(container, subject)


def _from_sources(container: Container, subject: Subject) -> Iterator[Problem]:
    sources = list(container.items("envFrom"))
    for index, source in reversed(sources):
        for field, kind in _KINDS.items():
            name = lookup(source, (field, "name"))
            if not isinstance(name, str):
                continue
            value = _value(kind, subject.view.get(kind, name, subject.namespace), source.get("prefix"))
            if value is None:
                continue
            if value not in HARMLESS:
                who = "" if container.asks_for_gpu else ", which asks for no GPU"
                text = f"{kind} {shown(name)} sets NVIDIA_VISIBLE_DEVICES in {container.title}{who}"
                yield problem(container.path / "envFrom" / index / field, text)
            return


def _value(kind: str, document: Any, prefix: Any) -> str | None:
    """What a ConfigMap or Secret sets the variable to; None where it does not, or cannot be seen."""
    start = prefix if isinstance(prefix, str) else ""
    if not VISIBLE_DEVICES.startswith(start):
        return None
    key = VISIBLE_DEVICES.removeprefix(start)
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
