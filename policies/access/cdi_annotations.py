"""Annotations by which NVIDIA's NRI plugin injects GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.checks import ACCESS
from policies.access.exemptions import EXEMPT
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Subject
    from policies.checks import Problem

_KEY = "nvidia.cdi.k8s.io"


@ACCESS.rule(
    "GA611",
    "GPUs are not named by annotations that the NRI plugin follows",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"ask for nvidia.com/gpu: 1 in resources.limits, and remove the annotation; {EXEMPT}",
    source="nvidia-container-toolkit cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go",
    wrong="""
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
      namespace: team-a
      annotations: {nvidia.cdi.k8s.io/container.train: nvidia.com/gpu=all}
    spec:
      containers:
      - {name: train, image: pytorch/pytorch}
    ---
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      cdi: {enabled: true, nriPluginEnabled: true}""",
    right="""
    apiVersion: v1
    kind: Pod
    metadata: {name: train, namespace: team-a}
    spec:
      containers:
      - name: train
        image: pytorch/pytorch
        resources:
          limits: {nvidia.com/gpu: 1}
    ---
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      cdi: {enabled: true, nriPluginEnabled: true}""",
)
def injected(subject: Subject) -> Iterator[Problem]:
    """Where the container toolkit runs its NRI plugin, it gives containers the CDI devices that an annotation names.

    It asks neither the scheduler nor who wrote the annotation. Nothing is said where the ClusterPolicy leaves the
    plugin off, and it is never refused where no ClusterPolicy is known.
    """
    if not subject.created:
        return
    for key, value in subject.annotations.items():
        if not isinstance(key, str) or key.partition("/")[0] != _KEY:
            continue
        enabled = subject.view.derive(_runs_nri_plugin)
        if not isinstance(value, str) or "nvidia.com/" not in value or enabled is False:
            continue
        text = f"names GPUs, {shown(value)}, that NVIDIA's NRI plugin injects without asking the scheduler"
        severity = subject.severity if enabled else Severity.WARN
        yield problem(FieldPath(("metadata", "annotations", key)), text, severity=severity)


def _runs_nri_plugin(view: ClusterView) -> bool | None:
    """Whether a ClusterPolicy turns the plugin on; None where there is none to tell."""
    policies = view.list("ClusterPolicy")
    if policies is UNKNOWN or not policies:
        return None
    return any(lookup(policy, ("spec", "cdi", "nriPluginEnabled")) is True for policy in policies)
