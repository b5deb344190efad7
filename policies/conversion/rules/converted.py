"""Rules on pods that are converted already, or should be."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["ESCAPED", "IMMUTABLE", "MARKED", "READDED", "SELECTS_AGAIN", "STILL_ASKS"]

READDED = rule(
    "GA319",
    "A resource that is added after conversion must equal the converted request",
    default=Severity.DENY,
    why="""
    A LimitRange with a default for GPUs, or another webhook, can put a GPU resource back into a converted pod. The same
    amount in the same container is removed again; another amount, or a container that has no request in the claim, is a
    second wish that contradicts the first.""",
    remedy="write the GPUs of every container into the pod (0 where it needs none), or remove the LimitRange's default",
    source="k8s.io/apiserver admission order: LimitRanger runs again after mutating webhooks",
)

STILL_ASKS = rule(
    "GA320",
    "A converted pod must not request GPUs from the device plugin as well",
    default=Severity.DENY,
    why="""
    The pod refers to the claim that conversion made and asks for the extended resource as well. It would get a second
    set of devices from the device plugin, or stay Pending for want of one.""",
    remedy="find the webhook that changes pods after conversion.gpu-admission.io and let it run before",
    source="docs/conversion.md",
)

ESCAPED = rule(
    "GA321",
    "A pod in a namespace that converts must be converted",
    default=Severity.DENY,
    why="""
    The pod would have been converted, but is not: a later webhook added the GPU resource, or the conversion webhook was
    not asked. Where GPUs are handed out by DRA it would stay Pending.""",
    remedy="create the pod again; if it happens again, find the webhook that adds the resource",
    source="docs/conversion.md",
)

SELECTS_AGAIN = rule(
    "GA325",
    "A converted pod must not select nodes by GPU labels",
    default=Severity.WARN,
    why="""
    Conversion moved such conditions to the claim. One that was added later, by another webhook, holds for nodes only:
    where GPUs are handed out by DRA the labels go stale or vanish, and the pod stays Pending.""",
    remedy="let the webhook that adds it run before conversion.gpu-admission.io",
    source="docs/conversion.md",
)

IMMUTABLE = rule(
    "GA328",
    "The GPUs of a pod must not change after it was created",
    default=Severity.WARN,
    why="""
    Kubernetes lets nobody change the GPUs of a pod after its creation. Applying the manifest of a converted pod again
    asks for nothing new, and succeeds: the pod stays as it was converted. An update that asks for anything else is left
    as it is, so that the API server refuses it; restoring it too would say "configured" and change nothing.""",
    remedy="delete the pod and create it again",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidatePodUpdate",
)

MARKED = rule(
    "GA329",
    "The marks of a converted pod must not change",
    default=Severity.WARN,
    why="""
    The annotation gpu-admission.io/converted tells what a pod asked for before it was converted, and the label
    gpu-admission.io/managed that it was. Without them nobody could tell that a manifest that is applied again is the one
    that was converted. An update of the pod's spec that changes them is stored without that change.""",
    remedy="leave the marks out of what you apply",
    source="docs/conversion.md",
)
