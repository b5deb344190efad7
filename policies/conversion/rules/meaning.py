"""Rules on what cannot be told to a claim exactly: shares, node labels, wishes, alternatives, ambiguous names."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["AMBIGUOUS", "LABEL", "NO_SHARES", "SHARED", "TERMS", "TOO_LONG"]

SHARED = rule(
    "GA306",
    "Shared GPUs must be converted only where the DRA driver offers shares",
    default=Severity.WARN,
    why="""
    Time-slicing and MPS replicas of the device plugin have no equivalent in DRA unless the driver publishes devices
    with a consumable capacity `shares` (ConsumableShares). Converting anyway would give the pod a whole GPU that up to
    a dozen pods shared before. The pod is left as it is and runs through the device plugin.""",
    remedy="keep this pod on device-plugin nodes, or enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go",
)

NO_SHARES = rule(
    "GA327",
    "A shared GPU must be wished for only where the DRA driver offers shares",
    default=Severity.DENY,
    why="""
    The pod wishes a GPU that it shares with others (gpu-admission.io/sharing: shared). A claim can ask for one share of
    a device only where the driver publishes the consumable capacity `shares` (ConsumableShares). Without it the pod
    would hold a whole GPU, which it said it does not need; asking for a share all the same, it would stay Pending.""",
    remedy='write gpu-admission.io/sharing: "any", keep this pod on device-plugin nodes (label gpu-admission.io/dra: disabled), '
    "or enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go; KEP-5075",
)

LABEL = rule(
    "GA307",
    "A node label that selects GPUs must have an exact equivalent on a device",
    default=Severity.DENY,
    why="""
    Where GPUs are handed out by DRA, nodes lose the labels of GPU Feature Discovery, and a pod that selects on them
    stays Pending for ever. Conversion turns such conditions into selectors on devices, but only exact ones: a pod must
    not land on another GPU than it asked for. Some labels describe the node, or count things, and no device attribute
    says the same.""",
    remedy="drop the condition, or replace it by one on nvidia.com/gpu.product, gpu.memory or gpu.family",
    source="github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery; dra-driver-nvidia-gpu deviceinfo.go",
)

TERMS = rule(
    "GA308",
    "OR-ed affinity terms must agree on the node part or on the GPU part",
    default=Severity.DENY,
    why="""
    Node selector terms are alternatives. "Zone a with an A100, or zone b with an H100" cannot be told as one condition
    on nodes and one on devices: each alone would also allow zone a with an H100. Terms that differ in only one of the
    two parts can.""",
    remedy="let the terms differ in the node part only or in the GPU part only, or make two workloads",
    source="k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
)

AMBIGUOUS = rule(
    "GA309",
    "nvidia.com/gpu must mean one kind of device",
    default=Severity.DENY,
    why="""
    Under the MIG strategy `single` a node hands out MIG devices under the name nvidia.com/gpu. Where some nodes do and
    others hand out whole GPUs, or devices of another profile, the device plugin let chance decide; a claim must say.""",
    remedy="say which one",
    source="github.com/NVIDIA/k8s-device-plugin README, MIG strategies",
)

TOO_LONG = rule(
    "GA311",
    "The conditions on a device must fit into CEL expressions of 10 KiB",
    default=Severity.DENY,
    why="""
    The API server refuses a device selector longer than 10,240 bytes, and with it the claim of every pod made from the
    template. What a pod demands by node labels and what it wishes both become such selectors; only very long lists of
    products reach the limit.""",
    remedy="name fewer values, or a family or memory instead of a list of products (nvidia.com/gpu.family, gpu.memory; as "
    "wishes, gpu-admission.io/family, min-memory)",
    source="k8s.io/api/resource/v1 types.go CELSelectorExpressionMaxLength",
)
