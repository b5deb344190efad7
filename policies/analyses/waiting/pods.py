"""Pods that wait for a node, as their status shows it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.resource_claims import Claim
from policies.fleet import may_request_gpu
from policies.kubernetes.names import SCHEDULABLE
from policies.kubernetes.objects import lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.pods import Pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.outcome import NamedClaim, Question

__all__ = ["PodState", "alike_key", "for_all_alike", "is_waiting", "pod_state"]


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


_POD_FIELDS = (
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "schedulerName",
    "schedulingGroup",
    "tolerations",
)
"""The fields of a pod's spec that explanations read, beside node affinity and the resources of containers."""
_CONTAINER_FIELDS = ("resources", "restartPolicy")


def alike_key(question: Question) -> str:
    """Equal for questions about stored pods that have the same explanation for readers of their namespace.

    Names, labels, environment and volumes differ among the pods of one template, and no explanation of a stored pod depends
    on them. A claim that was generated for one pod counts by its spec.
    """
    parts = {
        "namespace": question.namespace,
        "obstacles": [*map(asdict, question.obstacles)],
        "pod": _spec(question.pod.spec) if question.pod is not None else None,
        "claims": [*map(_claim, question.claims)],
        "allocated": [*map(_claim, question.allocated)],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def for_all_alike(question: Question) -> Question:
    """The question without the identity of the pod, so that one explanation is true for all alike pods.

    Explanations show names that the pod contains; its metadata and environment can contain further ones.
    """
    if question.pod is None:
        return question
    document = {**question.pod.document, "metadata": {"namespace": question.namespace}}
    pod = Pod({**document, "spec": _spec(question.pod.spec)}, question.pod.containers, question.pod.init_containers)
    claims = tuple(_for_all(claim, question.namespace) for claim in question.claims)
    return replace(question, label="the pod", pod=pod, claims=claims)


def _spec(spec: Object) -> Object:
    """The part of a pod's spec that explanations read."""
    return {
        **{name: spec[name] for name in _POD_FIELDS if name in spec},
        "affinity": {"nodeAffinity": lookup(spec, ("affinity", "nodeAffinity"))},
        "initContainers": [*_containers(spec, "initContainers")],
        "containers": [*_containers(spec, "containers")],
    }


def _containers(spec: Object, listed: str) -> Iterator[Object]:
    for container in mappings_at(spec, (listed,)):
        yield {name: container[name] for name in _CONTAINER_FIELDS if name in container}


def _claim(claim: NamedClaim) -> list[Any]:
    document = claim.claim.document
    own = [claim.source, lookup(document, ("status", "allocation")), lookup(document, ("status", "reservedFor"))]
    return [claim.name, claim.shared, claim.group, document.get("spec"), *(own if _is_named(claim) else ())]


def _is_named(claim: NamedClaim) -> bool:
    """True if the explanation may name the claim: pods share it, or it decides where the pod can run."""
    return claim.shared or claim.claim.allocation is not None


def _for_all(claim: NamedClaim, namespace: str) -> NamedClaim:
    if _is_named(claim):
        return claim
    metadata = {"name": claim.name, "namespace": namespace}
    document = Claim({**claim.claim.document, "metadata": metadata})
    return replace(claim, claim=document, source=f"claim {claim.name} of the pod")
