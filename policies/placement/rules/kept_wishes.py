"""Rules on what becomes of wishes that can be read: whether, and how, they are kept."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["BY_NAME", "NO_EFFECT"]

NO_EFFECT = rule(
    "GA407",
    "A wish must have an effect",
    default=Severity.WARN,
    why="""
    Wishes say which GPU a pod gets for its nvidia.com/gpu. A pod that asks for none gets none by wishing. In a claim
    that the pod brings itself its author says which device is meant; claims are not changed. A pod whose node
    affinity is too large for the wish to be added to it is refused: it would run on any GPU.""",
    remedy="remove the annotation, or ask for a GPU",
    source="docs/placement.md",
)

BY_NAME = rule(
    "GA408",
    "A wish must be met by labels, not by the names of nodes",
    default=Severity.WARN,
    why="""
    Where GPUs are handed out by DRA, nodes have no labels that tell of them. Until such a pod asks by a claim, its wish
    can only be kept by naming the nodes that have such GPUs now. A node that comes later will not be used.""",
    remedy="label the namespace gpu-admission.io/dra: enabled to have the pod ask by a claim",
    source="github.com/NVIDIA/gpu-operator GPUCluster, which deploys no GPU Feature Discovery",
)
