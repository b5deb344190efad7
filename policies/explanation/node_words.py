"""Why nodes are out before their devices are looked at, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.words import many, short
from policies.explanation.nodes import Shortage, Taint
from policies.explanation.report import Reason, ReasonKind
from policies.kubernetes.amounts import ONE, spoken
from policies.kubernetes.nodes import labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.explanation.nodes import Miss
    from policies.explanation.question import Question
    from policies.kubernetes.objects import Object

__all__ = ["node_reason"]

_MOST_VALUES = 3
_CONDITIONS = {
    "node.kubernetes.io/not-ready": "the node is not ready",
    "node.kubernetes.io/unreachable": "the node does not answer",
    "node.kubernetes.io/memory-pressure": "the node is short of memory",
    "node.kubernetes.io/disk-pressure": "the node is short of disk space",
    "node.kubernetes.io/pid-pressure": "the node is short of process ids",
    "node.kubernetes.io/network-unavailable": "the node has no network yet",
}


def node_reason(misses: Sequence[Miss], nodes: Sequence[Object], question: Question) -> Reason:
    """One reason for nodes that are out for the same: misses and nodes in the same order, at least one."""
    kind, key = misses[0].kind, misses[0].key
    if kind is ReasonKind.CORDONED:
        remedy = ("kubectl uncordon lets pods onto it again",)
        return Reason(kind, "the node is cordoned", remedy)
    if isinstance(key, Taint):
        return _tainted(key)
    if kind is ReasonKind.NODE_SELECTOR:
        return _unselected(str(key), nodes, question)
    if kind is ReasonKind.CLAIM_ELSEWHERE:
        return _elsewhere(str(key), question)
    return _short([miss.shortage for miss in misses if miss.shortage is not None])


def _tainted(taint: Taint) -> Reason:
    spelled = short(str(taint))
    condition = _CONDITIONS.get(taint.key)
    sentence = f"{condition} (taint {spelled})" if condition else f"the pod does not tolerate the taint {spelled}"
    return Reason(ReasonKind.TAINT, sentence, facts={"key": taint.key, "value": taint.value, "effect": taint.effect})


def _unselected(key: str, nodes: Sequence[Object], question: Question) -> Reason:
    if not key:
        return Reason(ReasonKind.NODE_SELECTOR, "the pod's required node affinity does not match")
    wanted = question.pod.spec["nodeSelector"][key] if question.pod else ""
    here = _labelled([labels_of(node).get(key) for node in nodes])
    sentence = f"the pod's nodeSelector asks for {short(f'{key}={wanted}')}; here {short(key)} is {here}"
    facts = {"label": key, "asked": wanted}
    return Reason(ReasonKind.NODE_SELECTOR, sentence, facts=facts)


def _labelled(values: Sequence[str | None]) -> str:
    """The values that nodes have of a label: `a or b, or missing`."""
    told = [short(value) or '""' for value in dict.fromkeys(values) if value is not None]
    if not told:
        return "missing"
    rest = len(told) - _MOST_VALUES
    text = (
        f"{', '.join(told[:_MOST_VALUES])} or {rest:,} more"
        if rest > 0
        else " or ".join(filter(None, (", ".join(told[:-1]), told[-1])))
    )
    return f"{text}, or missing" if None in values else text


def _elsewhere(name: str, question: Question) -> Reason:
    claim = next(claim for claim in question.allocated if claim.name == name)
    sentence = f"claim {name} has its devices already, and they cannot be reached from here"
    return Reason(ReasonKind.CLAIM_ELSEWHERE, sentence, (f"it is {claim.source}",), {"claim": name})


def _short(shortages: Sequence[Shortage]) -> Reason:
    """A resource that does not suffice; of several nodes, the one with the most left is told."""
    best = max(shortages, key=lambda shortage: (shortage.left, shortage.allocatable))
    name = best.resource
    asked, left, allocatable = (spoken(name, amount) for amount in (best.asked, best.left, best.allocatable))
    facts: dict[str, Any] = {"resource": name, "asked": asked, "left": left, "allocatable": allocatable}
    at_most = "at most " if len({shortage.left for shortage in shortages}) > 1 else ""
    if name == "pods":
        sentence = f"no room for another pod: {many(best.allocatable // ONE, 'pod')} can run on the node"
    elif not best.allocatable:
        sentence = f"{asked} {name} asked, and the node has none"
    elif best.for_ever:
        most = "at most " if len({shortage.allocatable for shortage in shortages}) > 1 else ""
        all_of_it = max(shortage.allocatable for shortage in shortages)
        sentence = f"{asked} {name} asked, and the node has {most}{spoken(name, all_of_it)} in all"
    else:
        sentence = f"{asked} {name} asked, {at_most}{left} of {allocatable} left beside the pods that run there"
    return Reason(ReasonKind.RESOURCES, sentence, facts=facts)
