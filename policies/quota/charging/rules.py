"""Rules on what is charged to a GPUQuota: it fits, it can be counted, it can be written down, and what it names exists."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["CHARGED_LATER", "COUNTABLE", "FITS", "WRITTEN"]

_SOURCE = "docs/quota.md"

FITS = rule(
    "GA502",
    "A namespace must not have more GPUs than its quota allows",
    default=Severity.DENY,
    why="""
    A GPUQuota limits the GPUs of all pods and claims of a namespace together. A pod or claim that exceeds it is refused
    when it is created, so that none has to be evicted later. No user is exempt, and no setting changes the severity:
    to try a quota first, give it mode: Warn.
    """,
    remedy="request less, wait until a pod or claim that holds GPUs ends, or ask your administrator to raise GPUQuota gpu",
    source=_SOURCE,
    fixed=True,
)

COUNTABLE = rule(
    "GA503",
    "The charge of a pod or claim must be countable",
    default=Severity.DENY,
    why="""
    A pod without a node counts as the most that it can get. With unknownProducts: Deny, a pod or claim that could get any
    product must name one. If memory is limited, and no node or ResourceSlice says how much memory the possible GPUs have,
    the request cannot be counted and is refused in either case.
    """,
    remedy="name the product: in a pod by the annotation gpu-admission.io/product or a nodeSelector for "
    "nvidia.com/gpu.product, in a claim by a selector for productName; where memory is unknown, one that the cluster has, "
    "or see to it that GPU Feature Discovery labels GPU nodes with nvidia.com/gpu.memory",
    source=_SOURCE,
    fixed=True,
    shared_cause=True,
)

WRITTEN = rule(
    "GA504",
    "A pod or claim with GPUs must be charged to the quota before it is created",
    default=Severity.DENY,
    why="""
    Each pod and claim is written into the status of the GPUQuota before it is admitted, so that the next request sees it.
    Sometimes that fails: the API server does not answer, too many requests write at once, a limit has not been counted
    yet, or the GPUQuota cannot be read. In namespaces with the label gpu-admission.io/quota: enforced the request is then
    refused, and the message says when to try again or whom to ask. In others it is admitted with a warning, and counted
    when it is seen.
    """,
    remedy="try again, and if that does not help, look for the reason with kubectl describe gpuquota gpu",
    source=_SOURCE,
    fixed=True,
    shared_cause=True,
)

CHARGED_LATER = rule(
    "GA505",
    "Objects that a pod or claim refers to must exist when it is charged",
    default=Severity.WARN,
    why="""
    A pod pays for its claims from templates when it is created. Where a template does not exist yet, nothing can be
    charged for it: its claim is charged when somebody makes it, and where that does not fit the pod waits, with the
    reason in its events, rather than being refused. Where a DeviceClass does not exist, more may be charged than is
    needed.
    """,
    remedy="create what is named first",
    source=_SOURCE,
    fixed=True,
    shared_cause=True,
)
