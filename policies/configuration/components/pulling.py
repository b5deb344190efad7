"""Pulling: when nodes fetch an image, and with which credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.components.checks import COMPONENTS
from policies.configuration.components.component import components_with
from policies.configuration.components.images import IMAGE
from policies.decision import Severity
from policies.kubernetes.misspellings import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_POLICIES = ("Always", "IfNotPresent", "Never")
_SECRET_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@COMPONENTS.rule(
    "GA114",
    "Images must have a valid pull policy and pull secrets that exist",
    default=Severity.DENY,
    remedy='write "Always", "IfNotPresent" or "Never"',
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go ImagePullPolicy; "
    "controllers/object_controls.go addPullSecrets",
    rows=("B-12", "B-13"),
)
def pull_settings(change: Change) -> Iterator[Problem]:
    """A pull policy that Kubernetes does not know is silently taken as IfNotPresent.

    Pull secrets are looked for in the operator's namespace. One that is not there, or that is not a registry's
    credentials, leaves every pod of the component in ImagePullBackOff.
    """
    looked_up: set[str] = set()
    for component in components_with(change, *IMAGE):
        policy = component.text("imagePullPolicy")
        if policy and policy not in _POLICIES:
            guess = closest(policy, _POLICIES)
            yield problem(
                component.at("imagePullPolicy"),
                f'"{policy}" is not a pull policy, so IfNotPresent is used silently',
                f"write imagePullPolicy: {guess}" if guess else None,
            )
        names: list[str] = []
        for index, name in enumerate(component.items("imagePullSecrets")):
            if not isinstance(name, str):
                continue
            path = component.at("imagePullSecrets", index)
            if name in names:
                yield problem(path, f'names "{name}" a second time', "remove it", severity=Severity.WARN)
            elif not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
                text = f'"{name}" cannot be the name of a Secret'
                yield problem(path, text, "write the name of a Secret", severity=Severity.WARN)
            elif name not in looked_up and (wrong := _wrong_secret(change, name)):
                yield problem(path, *wrong, severity=Severity.WARN)
            names.append(name)
            looked_up.add(name)


def _wrong_secret(change: Change, name: str) -> tuple[str, str] | None:
    secret = change.facts.operator_object("Secret", name)
    namespaces = " or ".join(change.facts.operator_namespaces)
    if secret is None:
        return f'names Secret "{name}", which is not in the operator\'s namespace ({namespaces})', (
            f"create it there: kubectl create secret docker-registry {name} "
            f"--namespace {change.facts.operator_namespaces[0]}"
            if change.facts.operator_namespaces
            else "create it there"
        )
    kind = secret.get("type", "Opaque") if isinstance(secret, dict) else _SECRET_TYPES[0]
    if kind not in _SECRET_TYPES:
        return f'names Secret "{name}" of type "{kind}", which holds no credentials of a registry', (
            f"create it again as type {_SECRET_TYPES[0]}"
        )
    return None
