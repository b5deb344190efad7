"""Rules on nodes: what they hand out, and what a pod that asks for it would get."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["MISSPELT_SELECTOR", "NOT_ADVERTISED", "ONE_SHARE", "ONLY_SHARES"]

MISSPELT_SELECTOR = rule(
    "GA409",
    "A pod must select nodes by labels and values that GPU nodes have",
    default=Severity.WARN,
    why="""
    No node has the label or the value, but one has a similar one. The pod would stay Pending, and the scheduler would only
    say that no node matched. Products that exist elsewhere are not reported, because such a node may come later.""",
    remedy="compare with the labels of the nodes",
    source="github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery",
)

ONLY_SHARES = rule(
    "GA411",
    "A pod that avoids shared GPUs must find a GPU of its own",
    default=Severity.WARN,
    needs=("placement.avoidSharedGPUs", True),
    why="""
    With spec.placement.avoidSharedGPUs, pods that ask for nvidia.com/gpu and say nothing about sharing are kept off
    nodes that hand out their GPUs in shares. Where every node that offers the GPU does so, that would keep the pod
    Pending for ever. So it is let run there and gets a share: the memory and the time of the GPU are other pods' too.""",
    remedy="add the annotation gpu-admission.io/sharing: shared if a share will do, or exclusive to wait for a whole one",
    source="github.com/NVIDIA/k8s-device-plugin README, Shared Access to GPUs; docs/placement.md",
)

ONE_SHARE = rule(
    "GA412",
    "A container must request one share where a node gives no more",
    default=Severity.WARN,
    why="""
    Under MPS, and under time-slicing with failRequestsGreaterThanOne, the device plugin turns down whoever asks for
    more than one share: two shares may be of one GPU, and are no more of it than one. The scheduler does not know. It
    binds the pod, the kubelet fails it, and a controller makes the next one, which fails in the same way.""",
    remedy="ask for 1",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go ValidateRequest, api/config/v1/config.go",
)

NOT_ADVERTISED = rule(
    "GA413",
    "A node must advertise the resource that a pod requests",
    default=Severity.WARN,
    why="""
    A pod that asks for a resource which no node has stays Pending, and the scheduler says no more than that it is
    insufficient. That may pass: an autoscaled cluster has no such node until the first pod asks for one. More often the
    name is not the one under which this cluster hands out its GPUs, for MIG profiles, MIG strategies, sharing and DRA
    each change it.""",
    remedy="ask for a resource that exists, or wait for a node that advertises this one",
    source="status.allocatable of the nodes; github.com/NVIDIA/k8s-device-plugin internal/resource, api/config/v1",
)
