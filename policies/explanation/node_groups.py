"""Groups of nodes that share one reason, and the sentences for reasons that do not concern devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.explanation.group_report import NodeGroup, Reason, ReasonKind
from policies.explanation.nodes import Shortage, Taint
from policies.explanation.solver import SolutionState
from policies.kubernetes.amounts import ONE, amount_text
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.phrases import format_count, format_ranges, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from policies.explanation.audience import Audience
    from policies.explanation.group_report import DeviceOutcome
    from policies.explanation.nodes import NodeMismatch
    from policies.explanation.question import Question
    from policies.explanation.survey import AlikeNodes
    from policies.kubernetes.objects import Object

__all__ = ["device_names", "node_groups"]

_MOST_GROUPS = 8
_MOST_NAMES = 8
_MOST_VALUE_GROUPS = 4
_MOST_VALUES = 3
_OF_PRODUCTS = "nvidia.com/"
"""Labels whose values are shown to all; the values of others may name nodes, teams and places."""
_GAVE_UP = "whether it fits is unknown: too many combinations of devices nearly satisfy the claims to try them all"


def node_groups(
    groups: Iterable[AlikeNodes],
    question: Question,
    nodes: Sequence[Object],
    audience: Audience,
    outcomes_of: Callable[[AlikeNodes], tuple[DeviceOutcome, ...]] = lambda _: (),
) -> tuple[tuple[NodeGroup, ...], int, int]:
    """The groups to show, the number of groups that are left out, and the number of nodes in these.

    Nodes that fit come first, then nodes that would fit if nothing were in use, then nodes rejected for their devices.

    Args:
        groups: the nodes of the survey.
        question: the surveyed question.
        nodes: all nodes.
        audience: whose names are shown.
        outcomes_of: what requests find of the devices of the first of some alike nodes; by default nothing is said of it.
    """
    merged: dict[Hashable, list[AlikeNodes]] = {}
    for alike in groups:
        merged.setdefault(_key(alike), []).append(alike)
    ranked = sorted((group for each in merged.values() for group in _by_values(each)), key=_rank)
    shown = tuple(_group(each, question, nodes, audience, outcomes_of) for each in ranked[:_MOST_GROUPS])
    left_out = ranked[_MOST_GROUPS:]
    return shown, len(left_out), sum(_size(each) for each in left_out)


def device_names(allocations: Iterable[Object]) -> tuple[str, ...]:
    """The devices of allocations by request: `gpu: gpu-0..gpu-3`."""
    by_request: dict[str, list[str]] = {}
    for allocation in allocations:
        for result in lookup(allocation, ("devices", "results")) or []:
            by_request.setdefault(str(result.get("request")), []).append(str(result.get("device")))
    return tuple(f"{request}: {format_ranges(names)}" for request, names in by_request.items())


def _key(alike: AlikeNodes) -> Hashable:
    if alike.fits:
        return "fits"
    if alike.mismatch is not None:
        return alike.mismatch.kind, alike.mismatch.key, alike.fits_if_empty
    if alike.devices is None:
        return "gave up"
    return alike.devices.reason.kind, alike.devices.gist, alike.fits_if_empty


def _by_values(groups: list[AlikeNodes]) -> list[list[AlikeNodes]]:
    """Groups by the values that devices have where they do not match; one group if there are many."""
    by_values: dict[Hashable, list[AlikeNodes]] = {}
    for alike in groups:
        by_values.setdefault(alike.devices.values if alike.devices else (), []).append(alike)
    return list(by_values.values()) if len(by_values) <= _MOST_VALUE_GROUPS else [groups]


def _rank(groups: Sequence[AlikeNodes]) -> tuple[bool, bool, bool, int]:
    first = groups[0]
    return not first.fits, not first.fits_if_empty, first.mismatch is not None, -_size(groups)


def _size(groups: Iterable[AlikeNodes]) -> int:
    return sum(len(alike.positions) for alike in groups)


def _group(
    groups: Sequence[AlikeNodes],
    question: Question,
    nodes: Sequence[Object],
    audience: Audience,
    outcomes_of: Callable[[AlikeNodes], tuple[DeviceOutcome, ...]],
) -> NodeGroup:
    first = min(groups, key=lambda alike: alike.positions[0])
    positions = sorted(position for alike in groups for position in alike.positions)
    solution = first.solution
    return NodeGroup(
        count=len(positions),
        nodes=tuple(name_of(nodes[position]) for position in positions[:_MOST_NAMES] if audience.sees_nodes),
        fits=first.fits,
        fits_if_empty=first.fits_if_empty,
        reason=None if first.fits else _reason(first, question, nodes, audience),
        devices=device_names(solution.allocations)
        if solution is not None and solution.state is SolutionState.FITS
        else (),
        outcomes=outcomes_of(first),
    )


def _reason(alike: AlikeNodes, question: Question, nodes: Sequence[Object], audience: Audience) -> Reason:
    if alike.devices is not None:
        return alike.devices.reason
    if alike.mismatch is not None:
        there = [nodes[position] for position in alike.positions]
        return _node_reason(alike.mismatches, there, question, audience)
    return Reason(ReasonKind.GAVE_UP, _GAVE_UP)


def _node_reason(
    mismatches: Sequence[NodeMismatch], nodes: Sequence[Object], question: Question, audience: Audience
) -> Reason:
    """The common reason of nodes; mismatches and nodes have the same order."""
    kind, key = mismatches[0].kind, mismatches[0].key
    if kind is ReasonKind.CORDONED:
        remedy = ("kubectl uncordon lets pods onto it again",)
        return Reason(kind, "the node is cordoned", remedy)
    if isinstance(key, Taint):
        return _taint_reason(key)
    if kind is ReasonKind.NODE_SELECTOR:
        return _selector_reason(str(key), nodes, question, audience)
    if kind is ReasonKind.CLAIM_ELSEWHERE:
        return _elsewhere_reason(str(key), question)
    return _shortage_reason([mismatch.shortage for mismatch in mismatches if mismatch.shortage is not None])


def _taint_reason(taint: Taint) -> Reason:
    spelled = shorten(str(taint))
    sentence = (
        f"{taint.condition} (taint {spelled})" if taint.condition else f"the pod does not tolerate the taint {spelled}"
    )
    return Reason(ReasonKind.TAINT, sentence, facts={"key": taint.key, "value": taint.value, "effect": taint.effect})


def _selector_reason(key: str, nodes: Sequence[Object], question: Question, audience: Audience) -> Reason:
    if not key:
        return Reason(ReasonKind.NODE_SELECTOR, "the pod's required node affinity does not match")
    wanted = question.pod.spec["nodeSelector"][key] if question.pod else ""
    here = _label_values([labels_of(node).get(key) for node in nodes])
    if not (audience.sees_nodes or key.startswith(_OF_PRODUCTS)):
        here = "another value or missing"
    sentence = f"the pod's nodeSelector requires {shorten(f'{key}={wanted}')}; here {shorten(key)} is {here}"
    facts = {"label": key, "asked": wanted}
    return Reason(ReasonKind.NODE_SELECTOR, sentence, facts=facts)


def _label_values(values: Sequence[str | None]) -> str:
    """The values of a label on nodes: `a or b, or missing`."""
    shown = [shorten(value) or '""' for value in dict.fromkeys(values) if value is not None]
    if not shown:
        return "missing"
    rest = len(shown) - _MOST_VALUES
    text = (
        f"{', '.join(shown[:_MOST_VALUES])} or {rest:,} more"
        if rest > 0
        else " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    )
    return f"{text}, or missing" if None in values else text


def _elsewhere_reason(name: str, question: Question) -> Reason:
    claim = next(claim for claim in question.allocated if claim.name == name)
    sentence = f"claim {name} has its devices already, which cannot be reached from here"
    return Reason(ReasonKind.CLAIM_ELSEWHERE, sentence, (f"it is {claim.source}",), {"claim": name})


def _shortage_reason(shortages: Sequence[Shortage]) -> Reason:
    """The reason for too little of a resource, with the numbers of the node that has the most left."""
    best = max(shortages, key=lambda shortage: (shortage.left, shortage.allocatable))
    name = best.resource
    requested, left, allocatable = (
        amount_text(name, amount) for amount in (best.requested, best.left, best.allocatable)
    )
    facts: dict[str, Any] = {"resource": name, "asked": requested, "left": left, "allocatable": allocatable}
    at_most = "at most " if len({shortage.left for shortage in shortages}) > 1 else ""
    if name == "pods":
        sentence = f"no room for another pod: {format_count(best.allocatable // ONE, 'pod')} can run on the node"
    elif not best.allocatable:
        sentence = f"{requested} {name} requested, and the node has none"
    elif best.is_permanent:
        most = "at most " if len({shortage.allocatable for shortage in shortages}) > 1 else ""
        all_of_it = max(shortage.allocatable for shortage in shortages)
        sentence = f"{requested} {name} requested, and the node has {most}{amount_text(name, all_of_it)} in all"
    else:
        sentence = f"{requested} {name} requested, {at_most}{left} of {allocatable} left beside the pods that run there"
    return Reason(ReasonKind.RESOURCES, sentence, facts=facts)
