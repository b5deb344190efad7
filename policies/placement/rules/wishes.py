"""Rules on wishes: what a pod may say of the GPU that it wants."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = [
    "CONFLICTING",
    "CONTRADICTORY",
    "MALFORMED",
    "MISSPELT",
    "NO_WISH",
    "UNSATISFIED",
]

MALFORMED = rule(
    "GA401",
    "A wish must be readable",
    default=Severity.DENY,
    why="""
    A wish that cannot be read cannot be kept. Left out, it would let the pod run on any GPU, which is what its author
    wanted to avoid.""",
    remedy="correct the annotation",
    source="docs/placement.md",
)

CONTRADICTORY = rule(
    "GA402",
    "A wish must not contradict itself or the request of the pod",
    default=Severity.DENY,
    why="""
    No GPU has at least 80 GiB and at most 40 GiB of memory, and what is handed out as nvidia.com/gpu.shared is never
    exclusive. Such a pod would be Pending for ever, whatever the cluster gets.""",
    remedy="change one of the two",
    source="docs/placement.md",
)

CONFLICTING = rule(
    "GA403",
    "A wish must not contradict the node selector and affinity of the pod",
    default=Severity.DENY,
    why="""
    A wish is added to what the pod says of its nodes itself, never put in its place. Where no node could have both, the
    pod would be Pending for ever, and only its author knows which of the two is meant.""",
    remedy="change the wish, or the pod's own condition on nodes",
    source="k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
)

UNSATISFIED = rule(
    "GA404",
    "A node must have a GPU that meets the wish",
    default=Severity.WARN,
    setting="placement.unsatisfiable",
    why="""
    No node has such a GPU now, so the pod will be Pending. That may pass: an autoscaled cluster has no GPU node until
    the first pod asks. It may also be a wish for what this cluster was never meant to have.""",
    remedy="compare with what exists, or wait for such a node",
    source="labels of GPU Feature Discovery, or ResourceSlices where nodes have none",
)

MISSPELT = rule(
    "GA405",
    "The product of a wish must exist",
    default=Severity.WARN,
    why="""
    The name is that of no GPU in the cluster, and of none that gpu-admission knows. It may be new; more often a letter
    is wrong, or a `*` is missing: the name of an H100 goes on, as in NVIDIA-H100-80GB-HBM3.""",
    remedy="compare with the label nvidia.com/gpu.product of your nodes",
    source="github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery",
)

NO_WISH = rule(
    "GA406",
    "An annotation of gpu-admission.io must be one that is read",
    default=Severity.WARN,
    why="""
    Nobody reads an annotation whose name is misspelt, or one that should have been a label. The pod runs as if it were
    not there.""",
    remedy="remove the annotation",
    source="docs/placement.md",
)
