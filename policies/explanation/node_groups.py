"""Groups of nodes that share one reason, and the sentences for reasons that do not concern devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.explanation.nodes import Shortage, Taint
from policies.explanation.report import NodeGroup, Reason, ReasonKind
from policies.explanation.solver import State
from policies.kubernetes.amounts import ONE, spoken
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.phrases import format_count, format_ranges, shorten

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from policies.explanation.nodes import Miss
    from policies.explanation.question import Question
    from policies.explanation.survey import Like
    from policies.kubernetes.objects import Object

__all__ = ["device_names", "grouped", "node_reason"]

_MOST_GROUPS = 8
_MOST_NAMES = 8
_MOST_VALUE_GROUPS = 4
_GAVE_UP = "whether it fits is unknown: too many combinations of devices nearly satisfy the claims to try them all"


def grouped(
    likes: Iterable[Like], question: Question, nodes: Sequence[Object]
) -> tuple[tuple[NodeGroup, ...], int, int]:
    """The groups to tell; how many are left out, and how many nodes these hold.

    Those that fit come first, then those that would if nothing were in use, then those where devices decided.
    """
    merged: dict[Hashable, list[Like]] = {}
    for like in likes:
        merged.setdefault(_key(like), []).append(like)
    ranked = sorted((group for each in merged.values() for group in _apart(each)), key=_rank)
    told = tuple(_group(each, question, nodes) for each in ranked[:_MOST_GROUPS])
    left_out = ranked[_MOST_GROUPS:]
    return told, len(left_out), sum(_size(each) for each in left_out)


def device_names(allocations: Iterable[Object]) -> tuple[str, ...]:
    """The devices of allocations by request: `gpu: gpu-0..gpu-3`."""
    by_request: dict[str, list[str]] = {}
    for allocation in allocations:
        for result in lookup(allocation, ("devices", "results")) or []:
            by_request.setdefault(str(result.get("request")), []).append(str(result.get("device")))
    return tuple(f"{request}: {format_ranges(names)}" for request, names in by_request.items())


def _key(like: Like) -> Hashable:
    if like.fits:
        return "fits"
    if like.miss is not None:
        return like.miss.kind, like.miss.key, like.fits_if_empty
    if like.devices is None:
        return "gave up"
    return like.devices.reason.kind, like.devices.gist, like.fits_if_empty


def _apart(likes: list[Like]) -> list[list[Like]]:
    """Nodes whose devices have different things in place of what is asked, told apart where these are few."""
    by_values: dict[Hashable, list[Like]] = {}
    for like in likes:
        by_values.setdefault(like.devices.values if like.devices else (), []).append(like)
    return list(by_values.values()) if len(by_values) <= _MOST_VALUE_GROUPS else [likes]


def _rank(likes: Sequence[Like]) -> tuple[bool, bool, bool, int]:
    first = likes[0]
    return not first.fits, not first.fits_if_empty, first.miss is not None, -_size(likes)


def _size(likes: Iterable[Like]) -> int:
    return sum(len(like.positions) for like in likes)


def _group(likes: Sequence[Like], question: Question, nodes: Sequence[Object]) -> NodeGroup:
    first = min(likes, key=lambda like: like.positions[0])
    positions = sorted(position for like in likes for position in like.positions)
    outcome = first.outcome
    return NodeGroup(
        count=len(positions),
        nodes=tuple(name_of(nodes[position]) for position in positions[:_MOST_NAMES]),
        fits=first.fits,
        fits_if_empty=first.fits_if_empty,
        reason=None if first.fits else _reason(first, question, nodes),
        devices=device_names(outcome.allocations) if outcome is not None and outcome.state is State.FITS else (),
    )


def _reason(like: Like, question: Question, nodes: Sequence[Object]) -> Reason:
    if like.devices is not None:
        return like.devices.reason
    if like.miss is not None:
        return node_reason(like.misses, [nodes[position] for position in like.positions], question)
    return Reason(ReasonKind.GAVE_UP, _GAVE_UP)


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
    spelled = shorten(str(taint))
    condition = _CONDITIONS.get(taint.key)
    sentence = f"{condition} (taint {spelled})" if condition else f"the pod does not tolerate the taint {spelled}"
    return Reason(ReasonKind.TAINT, sentence, facts={"key": taint.key, "value": taint.value, "effect": taint.effect})


def _unselected(key: str, nodes: Sequence[Object], question: Question) -> Reason:
    if not key:
        return Reason(ReasonKind.NODE_SELECTOR, "the pod's required node affinity does not match")
    wanted = question.pod.spec["nodeSelector"][key] if question.pod else ""
    here = _labelled([labels_of(node).get(key) for node in nodes])
    sentence = f"the pod's nodeSelector asks for {shorten(f'{key}={wanted}')}; here {shorten(key)} is {here}"
    facts = {"label": key, "asked": wanted}
    return Reason(ReasonKind.NODE_SELECTOR, sentence, facts=facts)


def _labelled(values: Sequence[str | None]) -> str:
    """The values that nodes have of a label: `a or b, or missing`."""
    told = [shorten(value) or '""' for value in dict.fromkeys(values) if value is not None]
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
        sentence = f"no room for another pod: {format_count(best.allocatable // ONE, 'pod')} can run on the node"
    elif not best.allocatable:
        sentence = f"{asked} {name} asked, and the node has none"
    elif best.for_ever:
        most = "at most " if len({shortage.allocatable for shortage in shortages}) > 1 else ""
        all_of_it = max(shortage.allocatable for shortage in shortages)
        sentence = f"{asked} {name} asked, and the node has {most}{spoken(name, all_of_it)} in all"
    else:
        sentence = f"{asked} {name} asked, {at_most}{left} of {allocatable} left beside the pods that run there"
    return Reason(ReasonKind.RESOURCES, sentence, facts=facts)
