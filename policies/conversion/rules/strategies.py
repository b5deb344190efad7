"""Rules on the strategies that a namespace can choose: what each needs of a pod and of the cluster."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["CHOSEN", "INCAPABLE", "NOT_RENAMED", "UNMAPPED"]

NOT_RENAMED = rule(
    "GA330",
    "A pod that is renamed must need nothing beyond a DeviceClass",
    default=Severity.DENY,
    why="""
    The strategy rename asks for a DeviceClass by its implicit resource name, deviceclass.resource.kubernetes.io/<class>.
    Such a name says which class and how many. Conditions on GPU labels, wishes and shares become selectors and
    capacities of a claim, and would be lost; the pod would get another GPU than it asked for.""",
    remedy="set gpu-admission.io/dra-strategy: template on the namespace, or drop the condition",
    source="KEP-5004",
)

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

CHOSEN = rule(
    "GA333",
    "Users must be told what the strategy auto chooses",
    default=Severity.WARN,
    why="""
    The strategy auto leaves a pod as it is where a DeviceClass stands for what it asks for, nothing needs translating
    and every GPU node's kubelet is 1.36 or newer; everything else gets a claim from a template. The choice may be
    another tomorrow, so each pod is told what was chosen for it and why.""",
    remedy="set gpu-admission.io/dra-strategy to template or leave on the namespace to have one of them always",
    source="docs/conversion.md",
)
