"""Rules on pods that are converted already, or should be."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["ESCAPED", "READDED", "SELECTS_AGAIN", "STILL_ASKS"]

READDED = rule(
    "GA319",
    "What is added after conversion equals what was asked",
    default=Severity.DENY,
    why="""
    A LimitRange with a default for GPUs, or another webhook, can put a GPU resource back into a converted pod. The same
    amount in the same container is removed again; another amount, or a container that has no request in the claim, is a
    second wish that contradicts the first.""",
    remedy="write the GPUs of every container into the pod (0 where it needs none), or remove the LimitRange's default",
    source="k8s.io/apiserver admission order: LimitRanger runs again after mutating webhooks",
    wrong="""
    kind: LimitRange
    spec:
      limits:
      - type: Container
        default: {nvidia.com/gpu: 1}""",
    right="""
    kind: LimitRange
    spec:
      limits:
      - type: Container
        default: {cpu: 1}""",
)

STILL_ASKS = rule(
    "GA320",
    "A converted pod does not also ask the device plugin",
    default=Severity.DENY,
    why="""
    The pod refers to the claim that conversion made and asks for the extended resource as well. It would get a second
    set of devices from the device plugin, or stay Pending for want of one.""",
    remedy="find the webhook that changes pods after conversion.gpu-admission.io and let it run before",
    source="docs/conversion.md",
    wrong="""
    resources:
      claims: [{name: gpu, request: train}]
      limits: {nvidia.com/gpu: 1}""",
    right="""
    resources:
      claims: [{name: gpu, request: train}]""",
)

ESCAPED = rule(
    "GA321",
    "A pod of a converting namespace is converted",
    default=Severity.DENY,
    why="""
    The pod would have been converted, but is not: a later webhook added the GPU resource, or the conversion webhook was
    not asked. Where GPUs are handed out by DRA it would stay Pending.""",
    remedy="create the pod again; if it happens again, find the webhook that adds the resource",
    source="docs/conversion.md",
    wrong="""
    resources:
      limits: {nvidia.com/gpu: 1}""",
    right="""
    resources:
      claims: [{name: gpu, request: train}]""",
)

SELECTS_AGAIN = rule(
    "GA325",
    "A converted pod does not select nodes by GPU labels",
    default=Severity.WARN,
    why="""
    Conversion moved such conditions to the claim. One that was added later, by another webhook, holds for nodes only:
    where GPUs are handed out by DRA the labels go stale or vanish, and the pod stays Pending.""",
    remedy="let the webhook that adds it run before conversion.gpu-admission.io",
    source="docs/conversion.md",
    wrong="""
    nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu-c6e64bdbb49dc79c}]""",
    right="""
    resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu-c6e64bdbb49dc79c}]""",
)
