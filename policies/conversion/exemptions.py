"""Pods that conversion leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import shown
from policies.metadata_keys import DRA_LABEL
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.settings import GPUAdmissionPolicy

__all__ = ["exemptions", "ignored_opt_out"]

_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_COUNTED_BY_POD = ("", "Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet")
"""Owners whose pods Kueue counts one by one, as it does bare pods; of all others it counts the owner itself."""

_LABELS = FieldPath(["metadata", "labels"])
_METADATA = FieldPath(["metadata"])


OTHER_SCHEDULER = rule(
    "GA315",
    "Pods must be converted only for schedulers that allocate claims",
    default=Severity.WARN,
    setting="conversion.schedulers",
    why="""
    Claims are allocated by the scheduler. A scheduler without DRA would leave the pod Pending, or count its GPUs as
    none. Pods of schedulers that are not listed in the settings are left alone.""",
    remedy="list the scheduler in conversion.schedulers if it allocates ResourceClaims",
    source="KEP-4381",
)

KUEUE = rule(
    "GA316",
    "A bare pod that Kueue queues must keep its resource names",
    default=Severity.WARN,
    why="""
    Kueue counts a bare pod by the resources in its spec when the pod is created, and holds it by a gate. Converted, it
    would not be counted. Pods of queued Jobs are converted: Kueue counted the Job.""",
    remedy="queue a Job instead of a bare pod",
    source="Kueue plain pods documentation; KEP-2941",
)

OPTED_OUT = rule(
    "GA317",
    "A pod that opts out must not be converted",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    needs=("conversion.allowPodOptOut", True),
    why="""
    The label gpu-admission.io/dra: disabled on a pod keeps it with the device plugin although its namespace converts,
    if the administrator allows it. It then runs only where the device plugin hands out GPUs.""",
    remedy="remove the label gpu-admission.io/dra from the pod to have it converted",
    source="docs/conversion.md",
)

EXEMPT = rule(
    "GA334",
    "Pods of exempt users must be left alone",
    default=Severity.AUDIT,
    why="""
    The administrator exempts the creator of the pod from conversion, so the pod keeps its resource names. Pods of
    workloads are created by Kubernetes' controllers, not by the user who applied the workload.""",
    remedy="let a user who is not exempt create the pod, or change exemptions in the GPUAdmissionPolicy",
    source="docs/settings.md",
)


def exemptions(pod: Pod, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """One finding per reason to leave the pod as it is; none if it is to be converted."""
    if settings.exempts_from_conversion:
        yield replace(EXEMPT.finding(_METADATA, "the user who creates the pod is exempt from conversion"), exempt=True)
    scheduler = pod.spec.get("schedulerName") or "default-scheduler"
    if scheduler not in settings.conversion.schedulers:
        known = ", ".join(settings.conversion.schedulers)
        yield OTHER_SCHEDULER.finding(
            SPEC / "schedulerName",
            f"{shown(scheduler)} is not known to allocate claims (known: {known})",
        )
    if _KUEUE_QUEUE in pod.labels and pod.controller_kind in _COUNTED_BY_POD:
        yield KUEUE.finding(
            _LABELS / _KUEUE_QUEUE,
            "Kueue counts this pod by the resources that it requests now",
        )
    if pod.labels.get(DRA_LABEL) == "disabled" and settings.conversion.allow_pod_opt_out:
        yield OPTED_OUT.finding(_LABELS / DRA_LABEL, 'is "disabled"')


OPT_OUT_REFUSED = rule(
    "GA318",
    "Pods must opt out only where the administrator allows it",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    needs=("conversion.allowPodOptOut", False),
    why="""
    The administrator has turned conversion.allowPodOptOut off, so the label on the pod has no effect and the pod is
    converted like every other.""",
    remedy="remove the label, or ask the administrator to allow it",
    source="docs/conversion.md",
)


def ignored_opt_out(pod: Pod, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """A warning if the pod opts out although the administrator does not allow it."""
    if pod.labels.get(DRA_LABEL) == "disabled" and not settings.conversion.allow_pod_opt_out:
        yield OPT_OUT_REFUSED.finding(
            _LABELS / DRA_LABEL, 'is "disabled", but pods may not opt out of conversion in this cluster'
        )
