"""Suggestions: the smallest changes that make a question fit, each tried by the simulator."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from policies.explanation.converted_claims import converted_claim
from policies.explanation.relaxations import Relaxation, relaxations
from policies.explanation.report import Change, Suggestion
from policies.explanation.wish_changes import WishChange, wish_changes
from policies.kubernetes.amounts import ONE, amount_text
from policies.kubernetes.pods import Pod
from policies.kubernetes.taints import node_taint
from policies.phrases import format_count, format_list, shorten
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.taints import Taint
    from policies.outcome import Audience, DeviceShortage, PlacementOutcome, Question
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["suggestions"]

_MOST_TRIED = 12
_MOST_COUNTS = 4
_MOST_BOUNDS = 3
_MOST_TOLD = 3


def suggestions(outcome: PlacementOutcome, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Suggestion, ...]:
    """Changes that make it fit now; if there are none, changes that would in an empty cluster."""
    wishes = tuple(islice(wish_changes(outcome.question, view, settings), _MOST_TRIED))
    now = _helpful_changes(outcome, wishes, only_if_empty=False)
    if now or outcome.fit_if_empty:
        return (*now, *_pods_to_end(outcome))
    return _helpful_changes(outcome, wishes, only_if_empty=True)


def _helpful_changes(
    outcome: PlacementOutcome, wishes: tuple[WishChange, ...], *, only_if_empty: bool
) -> tuple[Suggestion, ...]:
    helping = list(_changes_of_wishes(outcome, wishes, only_if_empty=only_if_empty))
    helped: set[tuple[str | int, ...]] = set()
    question, shortages = outcome.question, outcome.device_shortages(if_empty=only_if_empty)
    nodes = [each.positions for each in shortages]
    for relaxation in _candidates(shortages, question, wishes):
        if relaxation.topic in helped:
            continue
        changed = question.with_claim(relaxation.number, relaxation.claim)
        found = outcome.fits_with(changed, nodes, if_empty=only_if_empty)
        if found.nodes:
            helped.add(relaxation.topic)
            helping.append(
                Suggestion(
                    relaxation.change,
                    relaxation.sentence,
                    "" if relaxation.is_of_manifest else question.claims[relaxation.number].name,
                    "" if relaxation.is_of_manifest else relaxation.request,
                    found.nodes,
                    at_least=found.at_least,
                    only_if_empty=only_if_empty,
                )
            )
    helping += () if only_if_empty else _changes_of_pod(outcome)
    return tuple(helping[:_MOST_TOLD])


def _candidates(
    shortages: Iterable[DeviceShortage], question: Question, wishes: tuple[WishChange, ...]
) -> list[Relaxation]:
    """The relaxations to try: those on most nodes first, and lower counts last.

    Conditions that conversion derived from a wish are left to the changes of wishes; both count as tried.
    """
    topics: dict[tuple[str | int, ...], dict[str, Relaxation]] = {}
    counts: list[Relaxation] = []
    claims = question.claims
    converted = converted_claim(question.pod, claims)
    if converted is not None:
        topics |= {each.topic: {each.sentence: each} for each in converted.label_changes()}
    for shortage in shortages:
        check_cancelled()
        for relaxation in relaxations(shortage, claims):
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


def _changes_of_pod(outcome: PlacementOutcome) -> Iterator[Suggestion]:
    """Changes of the pod: tolerations for the taints of nodes, or less of an extended resource."""
    question = outcome.question
    for taints, tainted in sorted(outcome.tainted_nodes().items(), key=lambda item: (len(item[0]), -len(item[1]))):
        # A toleration does not help if a node is broken, or not for workloads.
        if all(node_taint(taint.key) is None for taint in taints):
            words = format_list([shorten(str(taint)) for taint in taints])
            several = len(taints) > 1
            what = f"tolerations for the node taints {words}" if several else f"a toleration for the node taint {words}"
            changed = _with_tolerations(question, taints)
            yield from _if_it_helps(outcome, Change.TOLERATION, f"add {what} to the pod", changed, [tainted])
    for resource, left in outcome.nodes_short_of_a_resource().items():
        most = max(left.values()) // ONE * ONE
        if "/" in resource and most:
            asked = amount_text(resource, question.resources[resource])
            sentence = f"request {amount_text(resource, most)} {resource} instead of {asked}"
            lower = replace(question, resources={**question.resources, resource: most})
            yield from _if_it_helps(outcome, Change.COUNT, sentence, lower, [[*left]])


def _with_tolerations(question: Question, taints: Iterable[Taint]) -> Question:
    pod = question.pod
    if pod is None:
        return question
    added = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints]
    spec = {**pod.spec, "tolerations": [*(pod.spec.get("tolerations") or []), *added]}
    return replace(question, pod=Pod({**pod.document, "spec": spec}, pod.containers, pod.init_containers))


def _changes_of_wishes(
    outcome: PlacementOutcome, wishes: tuple[WishChange, ...], *, only_if_empty: bool
) -> Iterator[Suggestion]:
    """Changes of wishes; for each word the first one that helps."""
    helped: set[str] = set()
    for wish in wishes:
        if wish.word in helped:
            continue
        for suggestion in _if_it_helps(outcome, Change.WISH, wish.sentence, wish.question, only_if_empty=only_if_empty):
            helped.add(wish.word)
            yield suggestion


def _if_it_helps(
    outcome: PlacementOutcome,
    change: Change,
    sentence: str,
    question: Question,
    nodes: Iterable[Sequence[int]] | None = None,
    *,
    only_if_empty: bool = False,
) -> Iterator[Suggestion]:
    """The suggestion, if the changed question fits some of these nodes."""
    found = outcome.fits_with(question, nodes, if_empty=only_if_empty)
    if found.nodes:
        yield Suggestion(change, sentence, "", "", found.nodes, at_least=found.at_least, only_if_empty=only_if_empty)


def _pods_to_end(outcome: PlacementOutcome) -> Iterator[Suggestion]:
    """The pods of lower priority to delete on single nodes, fewest pods first."""
    sentences = []
    for node, pods, highest, priority in outcome.pods_to_end()[:_MOST_TOLD]:
        theirs = f"priority {highest}{' at most' * (len(pods) > 1)}"
        where = f"node {node}" if outcome.audience.sees_nodes else "one node"
        sentences.append(f"delete {_pod_names(pods, outcome.audience)} on {where} ({theirs}, this pod has {priority})")
    for sentence in dict.fromkeys(sentences):
        yield Suggestion(Change.PREEMPTION, sentence, "", "", 1)


def _pod_names(pods: Sequence[str], audience: Audience) -> str:
    """`pods team-a/a and team-a/b`, `pod team-a/a and 2 pods of other namespaces`."""
    named = sorted(name for name in pods if audience.may_name(name.partition("/")[0]))
    others = len(pods) - len(named)
    parts = [f"pod{'s' * (len(named) > 1)} {format_list(named)}"] if named else []
    if others:
        parts.append(f"{format_count(others, 'pod')} of {'another namespace' if others == 1 else 'other namespaces'}")
    return " and ".join(parts)
