"""Suggestions: the smallest changes that make a question fit, each tried by the solver."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import NONE
from policies.explanation.preemption import pods_to_end
from policies.explanation.relaxations import Relaxation, relaxations
from policies.explanation.report import Change, Suggestion
from policies.explanation.wish_changes import WishChange, wish_changes
from policies.kubernetes.amounts import ONE, amount_text
from policies.kubernetes.pods import Pod
from policies.kubernetes.taints import node_taint
from policies.outcome import NodeChecks, ReasonKind, SolutionState, Solver, Taint, allocation_problem
from policies.phrases import shorten
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.dra.allocation.usage import Usage
    from policies.outcome import AlikeNodes, AllocationProblem, Question, Survey

__all__ = ["suggestions"]

_MOST_TRIED = 12
_MOST_COUNTS = 4
_MOST_BOUNDS = 3
_MOST_SHAPES = 512
"""Shapes of nodes on which a change is tried, those of most nodes first."""
_MOST_TOLD = 3


def suggestions(survey: Survey) -> tuple[Suggestion, ...]:
    """Changes that make it fit now; if there are none, changes that would in an empty cluster."""
    changes = wish_changes(survey.question, survey.view, survey.settings)
    wishes = tuple(islice(changes, _MOST_TRIED))
    now = _helpful_changes(survey, wishes, only_if_empty=False)
    if now or survey.count(empty=True):
        return (*now, *pods_to_end(survey))
    return _helpful_changes(survey, wishes, only_if_empty=True)


def _helpful_changes(survey: Survey, wishes: tuple[WishChange, ...], *, only_if_empty: bool) -> tuple[Suggestion, ...]:
    usage = NONE if only_if_empty else survey.cluster.usage
    helping = list(_changes_of_wishes(survey, wishes, only_if_empty=only_if_empty))
    helped: set[tuple[str | int, ...]] = set()
    for relaxation in _candidates(survey, wishes):
        if relaxation.topic in helped:
            continue
        nodes, complete = _nodes_with(survey, relaxation, usage)
        if nodes:
            helped.add(relaxation.topic)
            helping.append(
                Suggestion(
                    relaxation.change,
                    relaxation.sentence + _made_by_conversion(survey.question, relaxation),
                    survey.problem.claims[relaxation.number].name,
                    relaxation.request,
                    nodes,
                    at_least=not complete,
                    only_if_empty=only_if_empty,
                )
            )
    helping += () if only_if_empty else _changes_of_pod(survey)
    return tuple(_best_changes(helping))


def _best_changes(helping: list[Suggestion]) -> Iterator[Suggestion]:
    """The first suggestions, with only the highest count for each request."""
    seen: set[tuple[Change, str, str]] = set()
    kept = 0
    for suggestion in helping:
        key = (suggestion.change, suggestion.claim, suggestion.request)
        if (suggestion.change is Change.COUNT and key in seen) or kept == _MOST_TOLD:
            continue
        seen.add(key)
        kept += 1
        yield suggestion


def _candidates(survey: Survey, wishes: tuple[WishChange, ...]) -> list[Relaxation]:
    """The relaxations to try: those on most nodes first, and lower counts last.

    Conditions that conversion derived from a wish are left to the changes of wishes; both count as tried.
    """
    of_wishes = frozenset().union(*(wish.conditions for wish in wishes))
    topics: dict[tuple[str | int, ...], dict[str, Relaxation]] = {}
    counts: list[Relaxation] = []
    for alike in sorted(_failing_groups(survey), key=lambda alike: -len(alike.positions)):
        check_cancelled()
        if alike.devices is not None:
            for relaxation in relaxations(alike.devices, survey.problem.claims):
                if relaxation.change is Change.COUNT:
                    counts.append(relaxation)
                elif relaxation.condition not in of_wishes:
                    topics.setdefault(relaxation.topic, {}).setdefault(relaxation.sentence, relaxation)
    others = [each for topic in topics.values() for each in _nearest(topic.values())]
    counts = list({each.sentence: each for each in sorted(counts, key=lambda each: -int(each.topic[-1]))}.values())
    return others[: _MOST_TRIED - len(wishes)] + counts[:_MOST_COUNTS]


def _nearest(relaxations_of_topic: Iterable[Relaxation]) -> list[Relaxation]:
    """The smallest changes, and the largest one."""
    ordered = sorted(relaxations_of_topic, key=lambda each: each.loss)
    return [*ordered[:_MOST_BOUNDS], ordered[-1]] if len(ordered) > _MOST_BOUNDS else ordered


def _failing_groups(survey: Survey) -> list[AlikeNodes]:
    return [alike for alike in survey.groups if alike.devices is not None]


def _nodes_with(survey: Survey, relaxation: Relaxation, usage: Usage) -> tuple[int, bool]:
    """The number of nodes that fit with a relaxation, and whether all were tried."""
    groups = sorted(_failing_groups(survey), key=lambda alike: -len(alike.positions))
    nodes = 0
    try:
        solver = Solver(survey.problem.with_claim(relaxation.number, relaxation.claim), usage)
        for alike in groups[:_MOST_SHAPES]:
            if solver.solution(alike.positions[0], alike.resources).state is SolutionState.FITS:
                nodes += len(alike.positions)
    except AllocationError:
        return 0, True
    return nodes, len(groups) <= _MOST_SHAPES


def _made_by_conversion(question: Question, relaxation: Relaxation) -> str:
    if question.converted_to and relaxation.change is Change.SELECTOR:
        return ", which conversion made of the pod's wishes, node selector or affinity"
    return ""


def _changes_of_pod(survey: Survey) -> Iterator[Suggestion]:
    """Changes of the pod: a toleration for a taint of nodes, or less of an extended resource."""
    missed = [alike for alike in survey.groups if alike.mismatch is not None]
    for alike in sorted(missed, key=lambda alike: -len(alike.positions)):
        taint = alike.mismatch.key if alike.mismatch else None
        # A toleration does not help if a node is broken, or not for workloads.
        if isinstance(taint, Taint) and node_taint(taint.key) is None:
            sentence = f"add a toleration for the node taint {shorten(str(taint))} to the pod"
            problem = replace(survey.problem, question=_with_toleration(survey.problem.question, taint))
            yield from _if_it_helps(survey, Change.TOLERATION, sentence, problem, [alike])
    by_resource: dict[str, list[AlikeNodes]] = {}
    for alike in missed:
        if alike.mismatch and alike.mismatch.kind is ReasonKind.RESOURCES and alike.mismatch.shortage:
            by_resource.setdefault(alike.mismatch.shortage.resource, []).append(alike)
    for resource, groups in by_resource.items():
        if "/" not in resource:
            continue
        asked = survey.problem.question.resources[resource]
        left = (
            max(mismatch.shortage.left for alike in groups for mismatch in alike.mismatches if mismatch.shortage)
            // ONE
            * ONE
        )
        if left:
            sentence = f"request {amount_text(resource, left)} {resource} instead of {amount_text(resource, asked)}"
            resources = {**survey.problem.question.resources, resource: left}
            problem = replace(survey.problem, question=replace(survey.problem.question, resources=resources))
            yield from _if_it_helps(survey, Change.COUNT, sentence, problem, groups)


def _with_toleration(question: Question, taint: Taint) -> Question:
    pod = question.pod
    if pod is None:
        return question
    toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    spec = {**pod.spec, "tolerations": [*(pod.spec.get("tolerations") or []), toleration]}
    return replace(question, pod=Pod({**pod.document, "spec": spec}, pod.containers, pod.init_containers))


def _changes_of_wishes(survey: Survey, wishes: tuple[WishChange, ...], *, only_if_empty: bool) -> Iterator[Suggestion]:
    """Changes of wishes; for each word the first one that helps."""
    groups = sorted(survey.groups, key=lambda alike: -len(alike.positions))
    helped: set[str] = set()
    for wish in wishes:
        if wish.word in helped:
            continue
        problem = allocation_problem(wish.question, survey.cluster, survey.view, survey.settings)
        for suggestion in _if_it_helps(
            survey, Change.WISH, wish.sentence, problem, groups, only_if_empty=only_if_empty
        ):
            helped.add(wish.word)
            yield suggestion


def _if_it_helps(
    survey: Survey,
    change: Change,
    sentence: str,
    problem: AllocationProblem,
    groups: list[AlikeNodes],
    *,
    only_if_empty: bool = False,
) -> Iterator[Suggestion]:
    """The suggestion, if the changed problem fits some of these nodes."""
    checks = NodeChecks(
        problem.question, problem.nodes, None if only_if_empty else survey.resource_usage, problem.by_resource
    )
    solver = Solver(problem, NONE if only_if_empty else survey.cluster.usage)
    nodes = 0
    try:
        for position in (position for alike in groups for position in alike.positions):
            check_cancelled()
            resources = checks.served_by_claims(position)
            if checks.mismatch(position) is None and solver.solution(position, resources).state is SolutionState.FITS:
                nodes += 1
            if solver.solved == _MOST_SHAPES:
                break
    except AllocationError:
        return
    if nodes:
        at_least = solver.solved == _MOST_SHAPES
        yield Suggestion(change, sentence, "", "", nodes, at_least=at_least, only_if_empty=only_if_empty)
