"""Suggestions: the smallest changes that make it fit, each tried out before it is made."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import NONE
from policies.explanation.nodes import NodeChecks, Taint
from policies.explanation.preemption import pods_to_end
from policies.explanation.problem import allocation_problem
from policies.explanation.relaxations import Relaxation, relaxations
from policies.explanation.report import Change, ReasonKind, Suggestion
from policies.explanation.solver import Solver, State
from policies.explanation.wish_changes import WishChange, wish_changes
from policies.kubernetes.amounts import ONE, spoken
from policies.kubernetes.pods import Pod
from policies.kubernetes.taints import node_taint
from policies.phrases import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.dra.allocation.usage import Usage
    from policies.explanation.problem import AllocationProblem
    from policies.explanation.question import Question
    from policies.explanation.survey import Facts, Like, Survey

__all__ = ["suggestions"]

_MOST_TRIED = 12
_MOST_COUNTS = 4
_MOST_BOUNDS = 3
_MOST_SHAPES = 512
"""Shapes of nodes that one change is tried on, those of most nodes first."""
_MOST_TOLD = 3


def suggestions(facts: Facts) -> tuple[Suggestion, ...]:
    """What makes it fit now; if nothing does, and it would not fit an empty cluster either, what would there."""
    changes = wish_changes(facts.question, facts.view, facts.settings, facts.ask.check_cancelled)
    wishes = tuple(islice(changes, _MOST_TRIED))
    now = _tried(facts, wishes, only_if_empty=False)
    if now or facts.survey.count(empty=True):
        return (*now, *pods_to_end(facts))
    return _tried(facts, wishes, only_if_empty=True)


def _tried(facts: Facts, wishes: tuple[WishChange, ...], *, only_if_empty: bool) -> tuple[Suggestion, ...]:
    usage = NONE if only_if_empty else facts.cluster.usage
    told = list(_of_wishes(facts, wishes, only_if_empty=only_if_empty))
    helped: set[tuple[str | int, ...]] = set()
    for relaxation in _candidates(facts, wishes):
        if relaxation.topic in helped:
            continue
        nodes, complete = _nodes_with(facts, relaxation, usage)
        if nodes:
            helped.add(relaxation.topic)
            told.append(
                Suggestion(
                    relaxation.change,
                    relaxation.sentence + _made_by_conversion(facts.question, relaxation),
                    facts.ask.claims[relaxation.number].name,
                    relaxation.request,
                    nodes,
                    at_least=not complete,
                    only_if_empty=only_if_empty,
                )
            )
    told += () if only_if_empty else _of_pod(facts)
    return tuple(_best(told))


def _best(told: list[Suggestion]) -> Iterator[Suggestion]:
    """Of each kind of change for each request the one that helps most, and of counts the highest."""
    seen: set[tuple[Change, str, str]] = set()
    kept = 0
    for suggestion in told:
        key = (suggestion.change, suggestion.claim, suggestion.request)
        if (suggestion.change is Change.COUNT and key in seen) or kept == _MOST_TOLD:
            continue
        seen.add(key)
        kept += 1
        yield suggestion


def _candidates(facts: Facts, wishes: tuple[WishChange, ...]) -> list[Relaxation]:
    """The relaxations to try: those found on most nodes first, of one topic what changes least; at last lower counts.

    What conversion made of a wish is left to the wish, which is where people can change it; both count as tried.
    """
    of_wishes = frozenset().union(*(wish.conditions for wish in wishes))
    topics: dict[tuple[str | int, ...], dict[str, Relaxation]] = {}
    counts: list[Relaxation] = []
    for like in sorted(_missed(facts.survey), key=lambda like: -len(like.positions)):
        facts.ask.check_cancelled()
        if like.devices is not None:
            for relaxation in relaxations(like.devices, facts.ask.claims):
                if relaxation.change is Change.COUNT:
                    counts.append(relaxation)
                elif relaxation.condition not in of_wishes:
                    topics.setdefault(relaxation.topic, {}).setdefault(relaxation.sentence, relaxation)
    others = [each for topic in topics.values() for each in _nearest(topic.values())]
    counts = list({each.sentence: each for each in sorted(counts, key=lambda each: -int(each.topic[-1]))}.values())
    return others[: _MOST_TRIED - len(wishes)] + counts[:_MOST_COUNTS]


def _nearest(relaxations_of_topic: Iterable[Relaxation]) -> list[Relaxation]:
    """What changes least, and the most that can be changed."""
    ordered = sorted(relaxations_of_topic, key=lambda each: each.loss)
    return [*ordered[:_MOST_BOUNDS], ordered[-1]] if len(ordered) > _MOST_BOUNDS else ordered


def _missed(survey: Survey) -> list[Like]:
    return [like for like in survey.likes if like.devices is not None]


def _nodes_with(facts: Facts, relaxation: Relaxation, usage: Usage) -> tuple[int, bool]:
    """How many of the nodes that fail for their devices would fit, and whether all were tried."""
    likes = sorted(_missed(facts.survey), key=lambda like: -len(like.positions))
    nodes = 0
    try:
        solver = Solver(facts.ask.with_claim(relaxation.number, relaxation.claim), usage)
        for like in likes[:_MOST_SHAPES]:
            if solver.outcome(like.positions[0], like.resources).state is State.FITS:
                nodes += len(like.positions)
    except AllocationError:
        return 0, True
    return nodes, len(likes) <= _MOST_SHAPES


def _made_by_conversion(question: Question, relaxation: Relaxation) -> str:
    if question.converted_to and relaxation.change is Change.SELECTOR:
        return ", which conversion made of the pod's wishes, node selector or affinity"
    return ""


def _of_pod(facts: Facts) -> Iterator[Suggestion]:
    """Changes of the pod itself: a toleration for a taint of nodes, fewer of an extended resource."""
    missed = [like for like in facts.survey.likes if like.miss is not None]
    for like in sorted(missed, key=lambda like: -len(like.positions)):
        taint = like.miss.key if like.miss else None
        # Where something is wrong with a node, or it is not for workloads, tolerating that helps nobody.
        if isinstance(taint, Taint) and node_taint(taint.key) is None:
            sentence = f"add a toleration for the node taint {shorten(str(taint))} to the pod"
            ask = replace(facts.ask, question=_tolerating(facts.ask.question, taint))
            yield from _if_it_helps(facts, Change.TOLERATION, sentence, ask, [like])
    by_resource: dict[str, list[Like]] = {}
    for like in missed:
        if like.miss and like.miss.kind is ReasonKind.RESOURCES and like.miss.shortage:
            by_resource.setdefault(like.miss.shortage.resource, []).append(like)
    for resource, likes in by_resource.items():
        if "/" not in resource:
            continue
        asked = facts.ask.question.resources[resource]
        left = max(miss.shortage.left for like in likes for miss in like.misses if miss.shortage) // ONE * ONE
        if left:
            sentence = f"ask for {spoken(resource, left)} {resource} instead of {spoken(resource, asked)}"
            resources = {**facts.ask.question.resources, resource: left}
            ask = replace(facts.ask, question=replace(facts.ask.question, resources=resources))
            yield from _if_it_helps(facts, Change.COUNT, sentence, ask, likes)


def _tolerating(question: Question, taint: Taint) -> Question:
    pod = question.pod
    if pod is None:
        return question
    toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    spec = {**pod.spec, "tolerations": [*(pod.spec.get("tolerations") or []), toleration]}
    return replace(question, pod=Pod({**pod.document, "spec": spec}, pod.containers, pod.init_containers))


def _of_wishes(facts: Facts, wishes: tuple[WishChange, ...], *, only_if_empty: bool) -> Iterator[Suggestion]:
    """Changes of what is wished, for nodes and for devices; of one word the first that helps is enough."""
    likes = sorted(facts.survey.likes, key=lambda like: -len(like.positions))
    helped: set[str] = set()
    for wish in wishes:
        if wish.word in helped:
            continue
        ask = allocation_problem(wish.question, facts.cluster, facts.view, facts.settings, facts.ask.check_cancelled)
        for suggestion in _if_it_helps(facts, Change.WISH, wish.sentence, ask, likes, only_if_empty=only_if_empty):
            helped.add(wish.word)
            yield suggestion


def _if_it_helps(
    facts: Facts,
    change: Change,
    sentence: str,
    ask: AllocationProblem,
    likes: list[Like],
    *,
    only_if_empty: bool = False,
) -> Iterator[Suggestion]:
    """The suggestion of another ask, if it fits on nodes that these stand for."""
    checks = NodeChecks(ask.question, ask.nodes, None if only_if_empty else facts.taken, ask.by_resource)
    solver = Solver(ask, NONE if only_if_empty else facts.cluster.usage)
    nodes = 0
    try:
        for position in (position for like in likes for position in like.positions):
            ask.check_cancelled()
            resources = checks.served_by_claims(position)
            if checks.miss(position) is None and solver.outcome(position, resources).state is State.FITS:
                nodes += 1
            if solver.solved == _MOST_SHAPES:
                break
    except AllocationError:
        return
    if nodes:
        at_least = solver.solved == _MOST_SHAPES
        yield Suggestion(change, sentence, "", "", nodes, at_least=at_least, only_if_empty=only_if_empty)
