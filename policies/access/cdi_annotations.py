"""Annotations that NVIDIA's NRI plugin or container runtime reads to inject GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.checks import ACCESS, EXEMPT, RECREATE
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Subject
    from policies.checks import Problem
    from policies.kubernetes.objects import Object


@ACCESS.rule(
    "GA611",
    "A pod must not name GPUs by annotations that NVIDIA's NRI plugin or container runtime reads",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"request nvidia.com/gpu: 1 in resources.limits, and remove the annotation; {EXEMPT}",
    source="nvidia-container-toolkit cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go, "
    "internal/modifier/cdi.go getAnnotationDevices",
)
def injecting_annotations(subject: Subject) -> Iterator[Problem]:
    """Containers get the CDI devices that an annotation names, without a request to the scheduler.

    The NRI plugin of the container toolkit reads `nvidia.cdi.k8s.io` and `nvidia.cdi.k8s.io/...`. NVIDIA's container runtime reads
    `cdi.k8s.io/...` in mode `cdi` under CRI-O, which passes it the annotations of pods; containerd does not. If no node
    reads an annotation, it is allowed. If that is unknown, it is a warning in every mode. Annotations are read when a
    container starts, so those that an update adds or changes are reviewed too.
    """
    for key, value in subject.annotations.items():
        reader = _READERS.get(key.partition("/")[0]) if isinstance(key, str) else None
        if reader is None or not isinstance(value, str) or VENDOR_PREFIX not in value:
            continue
        what, runs_here = reader
        is_read = subject.view.derive(runs_here)
        if is_read is False:
            continue
        text = f"names GPUs, {shown(value)}, that {what} injects without a request to the scheduler"
        severity = subject.severity if is_read else Severity.WARN
        remedy = None if subject.is_created else RECREATE
        yield problem(FieldPath(("metadata", "annotations", key)), text, remedy, severity=severity)


def _runs_nri_plugin(view: ClusterView) -> bool | None:
    """True if a ClusterPolicy enables the plugin; None if no ClusterPolicy exists."""
    policies = view.list("ClusterPolicy")
    if policies is UNKNOWN or not policies:
        return None
    return any(lookup(policy, ("spec", "cdi", "nriPluginEnabled")) is True for policy in policies)


def _runs_crio(view: ClusterView) -> bool | None:
    """True if a node runs CRI-O; None if the nodes are unknown."""
    nodes = view.derive_each("Node", _is_crio)
    return None if nodes is UNKNOWN else any(nodes)


def _is_crio(node: Object) -> bool:
    runtime = lookup(node, ("status", "nodeInfo", "containerRuntimeVersion"))
    return isinstance(runtime, str) and runtime.startswith("cri-o://")


_READERS = {
    "nvidia.cdi.k8s.io": ("NVIDIA's NRI plugin", _runs_nri_plugin),
    "cdi.k8s.io": ("NVIDIA's container runtime, in mode cdi under CRI-O,", _runs_crio),
}
"""By the prefix of an annotation: the software that reads it, and a function that returns whether it runs here."""
