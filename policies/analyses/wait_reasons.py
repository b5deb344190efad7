"""Reasons why pods wait for GPUs: a kind for metrics and tables, a clause, and what would help."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.names import format_count, shorten
from policies.kubernetes.neighbours import QUEUE
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import DEFAULT_NAMESPACE, namespace_of
from policies.outcome import Feasibility, ObstacleKind, ReasonKind
from policies.quota.outcomes import within_quota

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.explain import Explanation
    from policies.analyses.explain.explanations import Peers
    from policies.kubernetes.objects import Object
    from policies.outcome import Obstacle


class WaitReason(StrEnum):
    """The kind of a reason why pods wait; also the value of the label `reason` of a metric."""

    IN_USE = "inUse"
    """All nodes that fit are in use."""
    NO_NODE = "noNode"
    """No node fits, even if nothing were in use."""
    QUOTA = "quota"
    """A GPUQuota or a ResourceQuota has too little left."""
    REFUSED = "refused"
    """Admission refuses the pods of a workload, for another reason than a quota."""
    MISSING = "missing"
    """A claim, template or DeviceClass does not exist."""
    CLAIM = "claim"
    """A claim is full, or is being deleted."""
    INVALID = "invalid"
    """The scheduler fails with an error, or an object does not have the fields of its kind."""
    GATED = "gated"
    """A scheduling gate or a suspension holds the pods back, for example of Kueue."""
    NOT_STARTED = "notStarted"
    """The pod is bound to a node, holds its devices, and does not start."""
    NOT_CREATED = "notCreated"
    """The controller has not created the pods, and nothing says why."""
    FITS = "fits"
    """The pod fits a node now, and the scheduler has not bound it yet."""
    UNKNOWN = "unknown"
    """Facts are missing, or the pod was not explained."""

    @property
    def words(self) -> str:
        """The reason in a few words: `no node fits`, `over quota`."""
        return _WORDS[self]


_WORDS = {
    WaitReason.IN_USE: "fitting nodes in use",
    WaitReason.NO_NODE: "no node fits",
    WaitReason.QUOTA: "over quota",
    WaitReason.REFUSED: "refused",
    WaitReason.MISSING: "something is missing",
    WaitReason.CLAIM: "claim not available",
    WaitReason.INVALID: "invalid",
    WaitReason.GATED: "held back",
    WaitReason.NOT_STARTED: "bound, not started",
    WaitReason.NOT_CREATED: "not created",
    WaitReason.FITS: "fits now",
    WaitReason.UNKNOWN: "unknown",
}

_REASONS = {
    ObstacleKind.MALFORMED: WaitReason.INVALID,
    ObstacleKind.REFUSED: WaitReason.REFUSED,
    ObstacleKind.FACT_UNKNOWN: WaitReason.UNKNOWN,
    ObstacleKind.MISSING: WaitReason.MISSING,
    ObstacleKind.CLAIM_FULL: WaitReason.CLAIM,
    ObstacleKind.CLAIM_DELETED: WaitReason.CLAIM,
    ObstacleKind.TOO_COSTLY: WaitReason.INVALID,
    ObstacleKind.QUOTA_EXCEEDED: WaitReason.QUOTA,
    ObstacleKind.ALLOCATION_FAILS: WaitReason.INVALID,
    ObstacleKind.START_FAILS: WaitReason.NOT_STARTED,
    ObstacleKind.DEVICE_UNHEALTHY: WaitReason.NOT_STARTED,
}
"""The reasons by the kind of the worst obstacle of an explanation."""


_NO_NODE_RULES = ("GA405", "GA409", "GA404", "GA313", "GA413")
"""Rules whose warnings say why no node fits; misspelt names first."""


class WaitCause(NamedTuple):
    """The reason why pods wait, and what would help; both without full stops."""

    reason: WaitReason
    why: str
    """A clause: `all 6 fitting nodes are in use`."""
    remedy: str = ""
    """An imperative; empty if there is nothing to do but wait."""
    rule: str = ""
    """The rule that says so, `GA409`; empty if none does."""


def wait_cause(explanation: Explanation, count: int = 1) -> WaitCause:
    """The reason why `count` pods with one explanation wait, in the words of the explanation."""
    if explanation.obstacles:
        return cause_of_obstacle(explanation.obstacles[0])
    suggestion = next(iter(explanation.suggestions), None)
    remedy = "" if suggestion is None else f"{suggestion.sentence}; {suggestion.outcome}"
    nearest = next((group for group in explanation.groups if group.reason is not None), None)
    reason = None if nearest is None else nearest.reason
    match explanation.verdict:
        case Feasibility.FITS if explanation.replicas is not None and explanation.replicas < count:
            why = f"{explanation.replicas:,} of {count:,} fit now; for the others, all fitting nodes are in use"
            return WaitCause(WaitReason.IN_USE, why)
        case Feasibility.FITS:
            why = f"fits {format_count(explanation.fit_now, 'node')} now, and the scheduler has not bound it yet"
            return WaitCause(WaitReason.FITS, why, "kubectl describe pod shows what the scheduler says")
        case Feasibility.FULL | Feasibility.IMPOSSIBLE if reason is not None and reason.kind is ReasonKind.QUOTA:
            return WaitCause(WaitReason.QUOTA, reason.sentence, next(iter(reason.details), ""))
        case Feasibility.FULL:
            nodes = explanation.fit_if_empty
            which = {1: "the only fitting node is", 2: "both fitting nodes are"}
            why = f"{which.get(nodes, f'all {nodes:,} fitting nodes are')} in use"
            return WaitCause(WaitReason.IN_USE, why, remedy)
        case Feasibility.IMPOSSIBLE:
            warnings = {each.rule: each for each in reversed(explanation.warnings)}
            if warning := next((warnings[rule] for rule in _NO_NODE_RULES if rule in warnings), None):
                remedy = warning.remedy or warning.administrator
                return WaitCause(WaitReason.NO_NODE, warning.message, remedy, warning.rule)
            why = explanation.headline if reason is None else f"no node fits: {reason.sentence}"
            return WaitCause(WaitReason.NO_NODE, why, remedy)
    return WaitCause(WaitReason.UNKNOWN, explanation.headline)


def cause_of_obstacle(obstacle: Obstacle) -> WaitCause:
    """The reason why pods wait that have an obstacle, in its words."""
    if obstacle.rule == within_quota.rule.id:
        # The rest of the message names the holders.
        why = f"over quota: {obstacle.sentence.partition('; ')[0]}"
        return WaitCause(WaitReason.QUOTA, why, obstacle.remedy, obstacle.rule)
    return WaitCause(_REASONS[obstacle.kind], obstacle.sentence, obstacle.remedy, obstacle.rule)


_NO_REMEDY = {
    Feasibility.FULL: "nothing but the end of what holds the devices there",
    Feasibility.IMPOSSIBLE: "no single change that was tried",
}


def answer(explanation: Explanation) -> WaitCause:
    """The reason for the verdict of an explanation, and what would help: its first lines."""
    peers, verdict = explanation.peers, explanation.verdict
    if verdict in (Feasibility.SCHEDULED, Feasibility.STUCK):
        first = next(iter(explanation.obstacles), None)
        if first is None:
            return WaitCause(WaitReason.FITS, explanation.headline)
        return WaitCause(WaitReason.NOT_STARTED, f"{explanation.headline}: {first.sentence}", first.remedy, first.rule)
    cause = wait_cause(explanation)
    if verdict is Feasibility.UNKNOWN:
        why = f"whether it fits is unknown: {cause.why}" if explanation.obstacles else cause.why
        return cause._replace(why=why)
    if verdict is Feasibility.FITS:
        cause = WaitCause(WaitReason.FITS, explanation.headline if peers is None else _fit_clause(explanation, peers))
    elif verdict is Feasibility.FULL and peers is not None:
        cause = cause._replace(why=f"{_fit_clause(explanation, peers)}: {cause.why}")
    elif cause.reason is WaitReason.NO_NODE and not cause.rule:
        nearest = next((group.reason for group in explanation.groups if group.reason is not None), None)
        details = () if nearest is None else nearest.details[:1]
        cause = cause._replace(why=": ".join((cause.why, *details)))
    elif cause.reason is WaitReason.REFUSED:
        cause = cause._replace(why=f"it is refused: {cause.why}")
    if peers is not None and peers.waiting and peers.bound and verdict is not Feasibility.BLOCKED:
        have = "has" if peers.bound == 1 else "have"
        cause = cause._replace(why=f"{cause.why}; {peers.bound:,} of {peers.pods:,} {have} a node")
    return cause if cause.remedy else cause._replace(remedy=_NO_REMEDY.get(verdict, ""))


def _fit_clause(explanation: Explanation, peers: Peers) -> str:
    """The number of the pods of a workload that fit now."""
    waiting, fit = peers.waiting, min(explanation.replicas or 0, peers.waiting)
    owner = f" of {peers.owner}" if explanation.label.startswith("pod ") else ""
    if not waiting:
        have = "its pod has" if peers.pods == 1 else f"all {peers.pods:,} pods{owner} have"
        return f"{have} a node already; one more {explanation.headline if explanation.fit_now else 'fits nowhere now'}"
    kind = "waiting " if peers.bound else ""
    where = f", on {explanation.fit_now:,} of {format_count(explanation.nodes or 0, 'node')}"
    if waiting == 1:
        return f"the {kind}pod{owner} {f'fits now{where}' if fit else 'fits nowhere now'}"
    if fit == waiting:
        return f"all {waiting:,} {kind}pods{owner} fit now{where}"
    others = "; no node has room for the others" if fit else ""
    the = "the " if peers.bound else ""
    return f"{f'{fit:,}' if fit else 'none'} of {the}{waiting:,} {kind}pods{owner} {'fit' if fit > 1 else 'fits'} now{others}"


def gated_cause(document: Object, gates: Sequence[str]) -> WaitCause:
    """The cause for pods with scheduling gates, or for a suspended workload without any."""
    queue = labels_of(document).get(QUEUE)
    kueue = QUEUE.partition("/")[0]
    if queue is not None or any(gate.startswith(kueue) for gate in gates):
        where = f" to queue {shorten(queue)}" if queue else ""
        remedy = (
            f"kubectl get workloads.{kueue} -n {namespace_of(document) or DEFAULT_NAMESPACE} shows what Kueue waits for"
        )
        return WaitCause(WaitReason.GATED, f"Kueue has not admitted it{where}", remedy)
    if gates:
        return WaitCause(
            WaitReason.GATED,
            f"scheduling gate {shorten(gates[0])} keeps it from the scheduler",
            "the controller that sets the gate must remove it",
        )
    return WaitCause(WaitReason.GATED, "it is suspended", "set suspend to false")
