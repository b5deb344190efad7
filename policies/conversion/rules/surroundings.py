"""Rules on what a conversion meets in the cluster: classes, quotas, devices, nodes, templates."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["FOREIGN_TEMPLATE", "NATIVE_QUOTA", "NO_CLASS", "OLD_KUBELET", "PREEMPTION", "TWICE", "UNSATISFIABLE"]

NO_CLASS = rule(
    "GA310",
    "The DeviceClass of a converted request must exist",
    default=Severity.DENY,
    why="""
    A claim of a class that does not exist keeps its pod Pending ("device class does not exist"). NVIDIA's DRA driver
    brings the classes gpu.nvidia.com and mig.nvidia.com; where they are missing, it is not installed.""",
    remedy="install NVIDIA's DRA driver, or remove the label gpu-admission.io/dra from the namespace",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources PreFilter",
)

NATIVE_QUOTA = rule(
    "GA312",
    "Conversion must not switch a ResourceQuota off",
    default=Severity.DENY,
    setting="conversion.nativeQuota",
    why="""
    A ResourceQuota on requests.nvidia.com/gpu counts what pods ask for by that name. A converted pod asks by a claim,
    which the quota counts only if the DeviceClass carries the name (spec.extendedResourceName) and the API server is
    1.36 or newer, and never for quotas with scopes. Otherwise the namespace could take every GPU.""",
    remedy="limit the namespace by a GPUQuota and remove the ResourceQuota, or set extendedResourceName on the DeviceClass",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go",
)

UNSATISFIABLE = rule(
    "GA313",
    "A device of the cluster must match the request",
    default=Severity.WARN,
    setting="conversion.unsatisfiable",
    why="""
    No ResourceSlice holds a device like this now, so the pod will be Pending. That may pass: an autoscaled cluster has
    no GPU node until the first pod asks, and a driver upgrade empties the slices. It may also be a misspelt product.""",
    remedy="compare with what exists, or wait for such a node",
    source="ResourceSlices of the cluster",
)

TWICE = rule(
    "GA314",
    "A node must hand out its GPUs by the device plugin or by DRA, not both",
    default=Severity.WARN,
    why="""
    Device plugin and DRA driver know nothing of each other. Where both run on a node, one GPU can be given to two pods
    at once.""",
    remedy="turn the device plugin off on these nodes (label nvidia.com/gpu.deploy.device-plugin=false)",
    source="github.com/NVIDIA/aicr issue 332; gpu-operator validation of ClusterPolicy and GPUCluster",
    shared_cause=True,
)

OLD_KUBELET = rule(
    "GA336",
    "The kubelets of nodes with devices must read the claims that the API server serves",
    default=Severity.WARN,
    why="""
    Kubernetes 1.34 and later serve claims as resource.k8s.io/v1, and older versions of them only if the administrator
    enables these. A kubelet before 1.34 reads the older versions only. The scheduler does not know: the pod is bound, and
    its containers never start.""",
    remedy="upgrade the kubelets, or let kube-apiserver serve resource.k8s.io/v1beta1 and v1beta2 too (--runtime-config)",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra; github.com/kubernetes-sigs/dra-driver-nvidia-gpu issue 766",
    shared_cause=True,
)

FOREIGN_TEMPLATE = rule(
    "GA322",
    "A template that is named by its content must have that content",
    default=Severity.DENY,
    why="""
    Templates are named by a hash of their spec. One of this name with another spec was written or changed by somebody
    else; the pod would get devices that it did not ask for.""",
    remedy="delete the ResourceClaimTemplate; it is made again when a pod needs it",
    source="docs/conversion.md",
)

PREEMPTION = rule(
    "GA335",
    "A converted pod must not rely on preemption",
    default=Severity.WARN,
    why="""
    For resources of the device plugin, Kubernetes' scheduler ends pods of lower priority to make room. For devices of
    claims it does not (Kubernetes 1.36): the pod stays Pending until other pods end by themselves, whatever its
    PriorityClass. The rule looks at pods that have a node, and whose GPU resources are those that the pod requests or
    requested before they were converted.""",
    remedy="if it stays Pending, end pods of lower priority yourself (gpu-admission explain names them)",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources: no PreFilterExtensions; enhancements #5690",
)
