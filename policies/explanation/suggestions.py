"""Suggestions: the smallest changes that make a question fit, each tried by the solver."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import NONE
from policies.explanation.converted_claims import converted_claim
from policies.explanation.preemption import pods_to_end
from policies.explanation.relaxations import Relaxation, relaxations
from policies.explanation.report import Change, Suggestion
from policies.explanation.wish_changes import WishChange, wish_changes
from policies.kubernetes.amounts import ONE, amount_text
from policies.kubernetes.pods import Pod
from policies.kubernetes.taints import node_taint
from policies.outcome import NodeChecks, SolutionState, Solver, Taint, allocation_problem
from policies.phrases import format_list, shorten
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.dra.allocation.usage import Usage
    from policies.outcome import AlikeNodes, AllocationProblem, DeviceMismatch, Question, Survey

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
    failing = _failing_groups(survey, only_if_empty=only_if_empty)
    for relaxation in _candidates(failing, survey, wishes):
        if relaxation.topic in helped:
            continue
        nodes, complete = _nodes_with(survey, failing, relaxation, usage)
        if nodes:
            helped.add(relaxation.topic)
            helping.append(
                Suggestion(
                    relaxation.change,
                    relaxation.sentence,
                    "" if relaxation.is_of_manifest else survey.problem.claims[relaxation.number].name,
                    "" if relaxation.is_of_manifest else relaxation.request,
                    nodes,
                    at_least=not complete,
                    only_if_empty=only_if_empty,
                )
            )
    helping += () if only_if_empty else _changes_of_pod(survey)
    return tuple(helping[:_MOST_TOLD])


_FailingGroup = tuple["AlikeNodes", "DeviceMismatch"]


def _failing_groups(survey: Survey, *, only_if_empty: bool) -> list[_FailingGroup]:
    """The nodes that do not fit for their devices, now or if nothing is in use; the largest groups first."""
    mismatches = ((alike, alike.lasting if only_if_empty else alike.devices) for alike in survey.groups)
    found = [(alike, mismatch) for alike, mismatch in mismatches if mismatch is not None]
    return sorted(found, key=lambda each: -len(each[0].positions))


def _candidates(failing: Iterable[_FailingGroup], survey: Survey, wishes: tuple[WishChange, ...]) -> list[Relaxation]:
    """The relaxations to try: those on most nodes first, and lower counts last.

    Conditions that conversion derived from a wish are left to the changes of wishes; both count as tried.
    """
    topics: dict[tuple[str | int, ...], dict[str, Relaxation]] = {}
    counts: list[Relaxation] = []
    claims = survey.problem.claims
    converted = converted_claim(survey.question.pod, claims)
    if converted is not None:
        topics |= {each.topic: {each.sentence: each} for each in converted.label_changes()}
    for _, mismatch in failing:
        check_cancelled()
        for relaxation in relaxations(mismatch, claims):
            of_manifest: Relaxation | None = relaxation
            if converted is not None and relaxation.number == converted.number:
                of_manifest = converted.in_manifest(relaxation)
            if of_manifest is None:
                continue
            if of_manifest.change is Change.COUNT:
                counts.append(of_manifest)
            else:
                topics.setdefault(of_manifest.topic, {}).setdefault(of_manifest.sentence, of_manifest)
    others = [each for topic in topics.values() for each in _nearest(topic.values())]
    counts = list({each.sentence: each for each in sorted(counts, key=lambda each: each.loss, reverse=True)}.values())
    return others[: _MOST_TRIED - len(wishes)] + counts[:_MOST_COUNTS]


def _nearest(relaxations_of_topic: Iterable[Relaxation]) -> list[Relaxation]:
    """The smallest changes, and the largest one."""
    ordered = sorted(relaxations_of_topic, key=lambda each: each.loss)
    return [*ordered[:_MOST_BOUNDS], ordered[-1]] if len(ordered) > _MOST_BOUNDS else ordered


def _nodes_with(
    survey: Survey, failing: Sequence[_FailingGroup], relaxation: Relaxation, usage: Usage
) -> tuple[int, bool]:
    """The number of nodes that fit with a relaxation, and whether all were tried."""
    nodes = 0
    try:
        solver = Solver(survey.problem.with_claim(relaxation.number, relaxation.claim), usage)
        for alike, _ in failing[:_MOST_SHAPES]:
            if solver.solution(alike.positions[0], alike.resources).state is SolutionState.FITS:
                nodes += len(alike.positions)
    except AllocationError:
        return 0, True
    return nodes, len(failing) <= _MOST_SHAPES


def _changes_of_pod(survey: Survey) -> Iterator[Suggestion]:
    """Changes of the pod: tolerations for the taints of nodes, or less of an extended resource."""
    tainted: defaultdict[tuple[Taint, ...], list[int]] = defaultdict(list)
    short: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for alike in survey.groups:
        for position, mismatches in zip(alike.positions, alike.mismatches, strict=True):
            taints = tuple(each.key for each in mismatches if isinstance(each.key, Taint))
            if taints and len(taints) == len(mismatches):
                tainted[taints].append(position)
            elif len(mismatches) == 1 and (shortage := mismatches[0].shortage) is not None:
                short[shortage.resource][position] = shortage.left // ONE * ONE
    question = survey.problem.question
    for taints, positions in sorted(tainted.items(), key=lambda item: (len(item[0]), -len(item[1]))):
        # A toleration does not help if a node is broken, or not for workloads.
        if all(node_taint(taint.key) is None for taint in taints):
            words = format_list([shorten(str(taint)) for taint in taints])
            several = len(taints) > 1
            what = f"tolerations for the node taints {words}" if several else f"a toleration for the node taint {words}"
            problem = replace(survey.problem, question=_with_tolerations(question, taints))
            yield from _if_it_helps(survey, Change.TOLERATION, f"add {what} to the pod", problem, positions)
    for resource, left in short.items():
        if "/" in resource and (most := max(left.values())):
            asked = amount_text(resource, question.resources[resource])
            sentence = f"request {amount_text(resource, most)} {resource} instead of {asked}"
            lower = replace(question, resources={**question.resources, resource: most})
            yield from _if_it_helps(survey, Change.COUNT, sentence, replace(survey.problem, question=lower), [*left])


def _with_tolerations(question: Question, taints: Iterable[Taint]) -> Question:
    pod = question.pod
    if pod is None:
        return question
    added = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints]
    spec = {**pod.spec, "tolerations": [*(pod.spec.get("tolerations") or []), *added]}
    return replace(question, pod=Pod({**pod.document, "spec": spec}, pod.containers, pod.init_containers))


def _changes_of_wishes(survey: Survey, wishes: tuple[WishChange, ...], *, only_if_empty: bool) -> Iterator[Suggestion]:
    """Changes of wishes; for each word the first one that helps."""
    groups = sorted(survey.groups, key=lambda alike: -len(alike.positions))
    positions = [position for alike in groups for position in alike.positions]
    helped: set[str] = set()
    for wish in wishes:
        if wish.word in helped:
            continue
        problem = allocation_problem(wish.question, survey.cluster, survey.view, survey.settings)
        for suggestion in _if_it_helps(
            survey, Change.WISH, wish.sentence, problem, positions, only_if_empty=only_if_empty
        ):
            helped.add(wish.word)
            yield suggestion


def _if_it_helps(
    survey: Survey,
    change: Change,
    sentence: str,
    problem: AllocationProblem,
    positions: Iterable[int],
    *,
    only_if_empty: bool = False,
) -> Iterator[Suggestion]:
    """The suggestion, if the changed problem fits some of these nodes."""
    checks = NodeChecks(problem, None if only_if_empty else survey.resource_usage)
    solver = Solver(problem, NONE if only_if_empty else survey.cluster.usage)
    nodes = 0
    try:
        for position in positions:
            check_cancelled()
            resources = checks.served_by_claims(position)
            if not checks.mismatches(position) and solver.solution(position, resources).state is SolutionState.FITS:
                nodes += 1
            if solver.solved == _MOST_SHAPES:
                break
    except AllocationError:
        return
    if nodes:
        at_least = solver.solved == _MOST_SHAPES
        yield Suggestion(change, sentence, "", "", nodes, at_least=at_least, only_if_empty=only_if_empty)
