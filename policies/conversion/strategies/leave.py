"""The strategy `leave`: a DeviceClass stands for the resource, and the scheduler makes the claim by itself.

Source: KEP-5004 (`spec.extendedResourceName` of DeviceClasses).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.conversion import Conversion
from policies.conversion.opt_in import NAMESPACE
from policies.conversion.versions import kubelet_problem
from policies.decision import Severity
from policies.fleet.known_classes import known_classes
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.conversion import Question
    from policies.decision import Finding

__all__ = ["leave"]


def leave(question: Question) -> Conversion:
    """Leave a pod as it is, where the cluster hands out by DRA what it asks for."""
    return Conversion(obstacles=tuple(_unable(question)))


INCAPABLE = rule(
    "GA331",
    "The cluster must support the conversion strategy",
    default=Severity.DENY,
    why="""
    DRA hands out extended resources since Kubernetes 1.36. An older API server or scheduler would leave the pod Pending;
    an older kubelet may start it without its GPU. Where a version, a node or a DeviceClass is not known, nothing is
    assumed. The administrator's choice is not exchanged for another; the strategy auto is the one that chooses.""",
    remedy="upgrade what is older, or set gpu-admission.io/dra-strategy to template or auto on the namespace",
    source="KEP-5004; k8s.io/kubernetes pkg/features/kube_features.go DRAExtendedResource, "
    "pkg/kubelet/lifecycle/predicate.go",
)

UNMAPPED = rule(
    "GA332",
    "A resource that is left as it is must stand for a DeviceClass",
    default=Severity.DENY,
    why="""
    The strategy leave changes nothing: the scheduler makes a claim for nvidia.com/gpu because a DeviceClass carries that
    name. Where none does, only nodes with a device plugin hand it out, and the namespace would not use DRA at all. The
    GPU Operator's own class gpu.nvidia.com does not carry the name; the one of the DRA driver's Helm chart does.""",
    remedy="set extendedResourceName on the DeviceClass, or set gpu-admission.io/dra-strategy to template or auto",
    source="KEP-5004; github.com/NVIDIA/gpu-operator issue 2859",
)


def _unable(question: Question) -> Iterator[Finding]:
    classes = known_classes(question.view)
    for resource, path in question.places.items():
        if not classes.are_listed:
            text = "is left to a DeviceClass that stands for it, and the DeviceClasses are not known"
            yield INCAPABLE.finding(path, text)
        elif not classes.standing_for(resource):
            yield UNMAPPED.finding(path, f"no DeviceClass has extendedResourceName: {resource}")
    # Nodes with a device plugin need nothing of DRA, and their kubelets may be older.
    problem = kubelet_problem(question.view, of_dra_only=True)
    if problem is not None:
        text = f"{problem}, and the strategy leave needs Kubernetes 1.36 on every node whose GPUs are handed out by DRA"
        yield INCAPABLE.finding(NAMESPACE, text)
