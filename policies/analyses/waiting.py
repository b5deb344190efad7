"""Pods that wait for GPUs, and the result of their explanation as a condition and an event.

A pod waits for a node, or is bound and does not run. The verdict and the reasons come from `policies.analyses.explain`, those of
bound pods from `policies.fleet.bound_pods`. Here is decided which pods wait, which of them share an explanation, and what the
condition and the event of a pod contain.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.resource_claims import Claim
from policies.fleet import may_request_gpu
from policies.fleet.bound_pods import StuckPod, start_reasons
from policies.kubernetes.names import SCHEDULABLE, format_count, shorten, with_capital, with_full_stop
from policies.kubernetes.objects import DEFAULT_NAMESPACE, has_ended, lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.pod_status import is_not_running, waiting_containers
from policies.kubernetes.pods import Pod
from policies.kubernetes.view import UNKNOWN
from policies.outcome import Feasibility, ObstacleKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.analyses.explain import Explanation
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import NamedClaim, Question


_SCHEDULED = "PodScheduled"
"""The type of the condition that the scheduler writes."""
MIN_AGE = timedelta(seconds=30)
"""The scheduler has usually not tried younger pods on all nodes yet, and controllers have not created theirs."""
_LONGEST_START = timedelta(minutes=10)
"""A younger pod may still pull its images, which can have tens of gigabytes."""


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
    found = _condition(pod, SCHEDULABLE)
    written = None if found is None else (str(found.get("reason") or ""), str(found.get("message") or ""))
    is_unbound = is_pending(pod) and may_request_gpu(pod)
    if not is_unbound and written is None:
        return None
    scheduled = _condition(pod, _SCHEDULED)
    is_rejected = scheduled is not None and scheduled.get("status") == "False"
    return PodState(pod, is_unbound, is_rejected, written)


def is_waiting(state: PodState, now: datetime) -> bool:
    """True if a pod has waited for long enough to be explained."""
    return state.is_pending and _is_older(state.pod, MIN_AGE, now)


def creation_time(document: Object) -> datetime | None:
    """The time at which an object was created; None if it is missing or invalid."""
    try:
        found = datetime.fromisoformat(str(lookup(document, ("metadata", "creationTimestamp"))))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _is_older(pod: Object, age: timedelta, now: datetime) -> bool:
    """True if a pod was created before that time; false if its time is unknown."""
    created = creation_time(pod)
    return created is not None and now - created > age


def stuck_pods(view: ClusterView, now: datetime) -> tuple[StuckPod, ...]:
    """The pods that hold devices on a node and do not run, by namespace and name.

    A pod for which nothing is reported counts once it has had time to pull its images.
    """
    found = []
    candidates = view.derive_each("Pod", _stuck_candidate)
    for pod in () if candidates is UNKNOWN else candidates:
        if pod is None:
            continue
        reasons = start_reasons(pod, view)
        if reasons or _is_older(pod, _LONGEST_START, now):
            node = str(lookup(pod, ("spec", "nodeName")))
            namespace = namespace_of(pod) or DEFAULT_NAMESPACE
            found.append(StuckPod(namespace, name_of(pod), node, reasons, waiting_containers(pod)))
    return tuple(sorted(found, key=lambda each: (each.namespace, each.pod)))


def _stuck_candidate(pod: Object) -> Object | None:
    """The pod if it holds devices on a node and does not run, else None."""
    is_deleted = lookup(pod, ("metadata", "deletionTimestamp")) is not None
    return None if is_deleted or has_ended(pod) or not is_not_running(pod) or not may_request_gpu(pod) else pod


def is_pending(pod: Object) -> bool:
    """True if the scheduler may bind a pod: no node, no scheduling gates, and not being deleted."""
    return _is_unbound(pod) and not lookup(pod, ("spec", "schedulingGates"))


def is_gated(pod: Object) -> bool:
    """True if scheduling gates keep a pod from the scheduler."""
    return _is_unbound(pod) and bool(lookup(pod, ("spec", "schedulingGates")))


def _is_unbound(pod: Object) -> bool:
    is_deleted = lookup(pod, ("metadata", "deletionTimestamp")) is not None
    has_node = bool(lookup(pod, ("spec", "nodeName")))
    return not is_deleted and not has_node and lookup(pod, ("status", "phase")) in (None, "", "Pending")


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
        "pod": _key_spec(question.pod.spec) if question.pod is not None else None,
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


def _key_spec(spec: Object) -> Object:
    """The same without the claims, of which the key has the content."""
    return {**_spec(spec), "resourceClaims": [each.get("name") for each in mappings_at(spec, ("resourceClaims",))]}


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


LONGEST_MESSAGE = 1000
"""Characters. The API server allows 1,024 bytes in an event, and all but quoted names is ASCII."""
_MOST_GROUPS = 3
_LONGEST_SENTENCE = 220
_DEFAULT_SCHEDULER = "default-scheduler"

_REASONS = {
    ObstacleKind.MALFORMED: "Malformed",
    ObstacleKind.REFUSED: "Refused",
    ObstacleKind.MISSING: "NotFound",
    ObstacleKind.CLAIM_FULL: "ClaimFull",
    ObstacleKind.CLAIM_DELETED: "ClaimDeleted",
    ObstacleKind.TOO_COSTLY: "SelectorTooCostly",
    ObstacleKind.QUOTA_EXCEEDED: "QuotaExceeded",
    ObstacleKind.ALLOCATION_FAILS: "AllocationFails",
}

_WITHOUT_AN_OBJECT = frozenset({ObstacleKind.MISSING, ObstacleKind.QUOTA_EXCEEDED})


@dataclass(frozen=True, slots=True)
class WaitingResult:
    """Reason and message of the condition; the same for all readers of the pod."""

    reason: str
    """`NoNodeFitsNow`, `NoNodeFits`, or the kind of the obstacle."""
    message: str
    is_before_scheduling: bool
    """True if the scheduler does not even try the pod, because an object that it names is missing, or cannot be created."""


def waiting_result(explanation: Explanation, scheduler: str = "") -> WaitingResult | None:
    """The text to write about a pod; None if the pod fits, or if facts are missing.

    Args:
        explanation: For an audience of the pod's namespace that does not see nodes.
        scheduler: `spec.schedulerName` of the pod.
    """
    match explanation.verdict:
        case Feasibility.FULL | Feasibility.IMPOSSIBLE if not explanation.nodes_guessed:
            reason = "NoNodeFitsNow" if explanation.verdict is Feasibility.FULL else "NoNodeFits"
        case Feasibility.BLOCKED:
            reason = _REASONS[explanation.obstacles[0].kind]
        case _:
            return None
    sentences = [*_sentences(explanation)]
    if scheduler not in ("", _DEFAULT_SCHEDULER):
        sentences.append(f"this is what the default scheduler would find; the pod is for scheduler {scheduler}")
    is_missing = any(obstacle.kind in _WITHOUT_AN_OBJECT for obstacle in explanation.obstacles)
    # As many sentences as the message has room for, without those that do not fit.
    message = ""
    for sentence in sentences:
        text = with_full_stop(with_capital(shorten(sentence, _LONGEST_SENTENCE)))
        longer = f"{message} {text}" if message else text
        if len(longer.encode()) <= LONGEST_MESSAGE:
            message = longer
    return WaitingResult(reason, message, is_missing)


def _sentences(explanation: Explanation) -> Iterator[str]:
    """Sentences in the order of their importance: the verdict, the smallest change, the reasons."""
    yield explanation.headline
    for obstacle in explanation.obstacles[:1]:
        yield f"{obstacle.sentence}; {obstacle.remedy}" if obstacle.remedy else obstacle.sentence
    for suggestion in explanation.suggestions[:1]:
        yield f"smallest change that helps: {suggestion.sentence}; {suggestion.outcome}"
    for group in explanation.groups[:_MOST_GROUPS]:
        if group.reason is not None:
            yield f"{format_count(group.count, 'node')}: {group.reason.sentence}"


_CONDITION_SECONDS = 60.0
"""The least time between two texts of a condition."""
_EVENT_SECONDS = 600.0
"""The least time between two events with the same reason; numbers in texts change often in a busy cluster."""
_RENEWAL_SECONDS = 1800.0
"""After that time an event is renewed: API servers delete events after an hour by default."""


class ConditionStep(Enum):
    """A change of the condition."""

    SET = "set"
    REMOVE = "remove"


class EventStep(Enum):
    """A change of the events of a pod."""

    CREATE = "create"
    RENEW = "renew"
    """Increase the count of the last event."""


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """The last event of a pod."""

    name: str
    result: WaitingResult
    created: float
    """Seconds."""
    renewed: float
    """Seconds."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class WrittenToPod:
    """The texts that this leader has written to a pod."""

    set_at: float | None = None
    """Seconds of the last condition; None before the first."""
    has_condition: bool = False
    """True if the condition was set and not removed; the view may not show it yet."""
    event: WrittenEvent | None = None
    known_since: float | None = None
    """Seconds when a condition was found that another leader had written with its event."""

    @property
    def is_nothing(self) -> bool:
        """True if this leader has not written to the pod, and has not found what another leader wrote."""
        return self == NOTHING_WRITTEN


NOTHING_WRITTEN = WrittenToPod()


def condition_step(
    state: PodState, result: WaitingResult | None, before: WrittenToPod, now: float
) -> ConditionStep | None:
    """The change of a pod's condition that is due now; one that is no longer true is removed.

    Args:
        state: The pod.
        result: What the condition should say; None if there should be none.
        before: What was written to the pod.
        now: Seconds.
    """
    if result is None:
        return ConditionStep.REMOVE if state.written is not None or before.has_condition else None
    if state.written == (result.reason, result.message):
        return None
    is_early = before.set_at is not None and now - before.set_at < _CONDITION_SECONDS
    return None if is_early else ConditionStep.SET


def event_step(result: WaitingResult, before: WrittenToPod, now: float) -> EventStep | None:
    """The change of a pod's events that is due while its condition has this result."""
    last = before.event
    if last is None:
        is_known = before.known_since is not None and now - before.known_since < _RENEWAL_SECONDS
        return None if is_known else EventStep.CREATE
    if last.result.reason != result.reason:
        return EventStep.CREATE
    if last.result != result:
        return EventStep.CREATE if now - last.created >= _EVENT_SECONDS else None
    return EventStep.RENEW if now - last.renewed >= _RENEWAL_SECONDS else None
