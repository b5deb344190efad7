"""Pods that conversion leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.rules import EXEMPT, KUEUE, OPT_OUT_REFUSED, OPTED_OUT, OTHER_SCHEDULER
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import shown
from policies.metadata_keys import DRA_LABEL

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


def exemptions(pod: Pod, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Reasons to leave the pod as it is, one finding each; none when it is to be converted."""
    if settings.exempts_from_conversion:
        yield replace(EXEMPT.finding(_METADATA, "who creates the pod is exempt from conversion"), exempt=True)
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
            "Kueue counts this pod by the resources it asks for now",
        )
    if pod.labels.get(DRA_LABEL) == "disabled" and settings.conversion.allow_pod_opt_out:
        yield OPTED_OUT.finding(_LABELS / DRA_LABEL, 'is "disabled"')


def ignored_opt_out(pod: Pod, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """A word to a pod that opts out where the administrator does not allow it."""
    if pod.labels.get(DRA_LABEL) == "disabled" and not settings.conversion.allow_pod_opt_out:
        yield OPT_OUT_REFUSED.finding(
            _LABELS / DRA_LABEL, 'is "disabled", but pods may not opt out of conversion in this cluster'
        )
