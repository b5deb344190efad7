"""Pods that wait for a node, as their status shows it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.fleet import may_request_gpu
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.metadata_keys import SCHEDULABLE

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["PodState", "is_waiting", "pod_state"]

_SCHEDULED = "PodScheduled"
"""The type of the condition that the scheduler writes."""
_MIN_AGE = timedelta(seconds=30)
"""The scheduler has usually not tried younger pods on all nodes yet."""


class PodState(NamedTuple):
    """A pod that waits for a node, or has our condition."""

    pod: Object
    is_pending: bool
    """True if the scheduler may bind the pod: it has no node and no scheduling gates, and is not being deleted."""
    is_rejected: bool
    """True if the scheduler has tried the pod, and found no node."""
    written: tuple[str, str] | None
    """Reason and message of our condition; None without it."""

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return str(lookup(self.pod, ("metadata", "uid")) or "")

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return namespace_of(self.pod)

    @property
    def name(self) -> str:
        """The name of the pod."""
        return name_of(self.pod)


def pod_state(pod: Object) -> PodState | None:
    """The state of a pod that requests devices; None if there is nothing to write and nothing to remove.

    A pod with scheduling gates waits for the controller that removes them.
    """
    written = _our_text(pod)
    is_pending = _is_pending(pod) and may_request_gpu(pod)
    if not is_pending and written is None:
        return None
    scheduled = _condition(pod, _SCHEDULED)
    is_rejected = scheduled is not None and scheduled.get("status") == "False"
    return PodState(pod, is_pending, is_rejected, written)


def is_waiting(state: PodState, now: datetime) -> bool:
    """True if a pod has waited for long enough to be explained."""
    if not state.is_pending:
        return False
    created = lookup(state.pod, ("metadata", "creationTimestamp"))
    try:
        return now - datetime.fromisoformat(str(created)) > _MIN_AGE
    except (ValueError, TypeError):
        return False


def _is_pending(pod: Object) -> bool:
    spec = lookup(pod, ("spec",))
    if lookup(spec, ("nodeName",)) or lookup(spec, ("schedulingGates",)):
        return False
    is_deleted = lookup(pod, ("metadata", "deletionTimestamp")) is not None
    return not is_deleted and lookup(pod, ("status", "phase")) in (None, "", "Pending")


def _our_text(pod: Object) -> tuple[str, str] | None:
    found = _condition(pod, SCHEDULABLE)
    return None if found is None else (str(found.get("reason") or ""), str(found.get("message") or ""))


def _condition(pod: Object, kind: str) -> dict[str, Any] | None:
    return next((each for each in mappings_at(pod, ("status", "conditions")) if each.get("type") == kind), None)
