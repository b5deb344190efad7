"""Comparisons: what a change of the cluster does to the places of its pods and claims."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.outcome.fits import Fit, FitFinder
from policies.outcome.outcome import Feasibility
from policies.phrases import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.outcome.fits import Situation
    from policies.outcome.workloads import Subject

__all__ = ["MOST_SUBJECTS", "FitComparison", "Outcome", "affected_subjects", "compare_fits"]

MOST_SUBJECTS = 2_000
"""Templates that are compared; each takes up to 0.1 seconds in a cluster of 5,000 nodes. The rest is unknown."""


class Outcome(StrEnum):
    """What becomes of a fact when the cluster changes."""

    KEPT = "kept"
    """It is the same, or as good."""
    LOST = "lost"
    GAINED = "gained"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FitComparison:
    """The places of one subject before and after a change."""

    subject: Subject
    before: Fit
    after: Fit
    outcome: Outcome
    sentence: str
    """What becomes of it, a clause without a full stop."""


def compare_fits(subjects: Iterable[Subject], before: Situation, after: Situation) -> Iterator[FitComparison]:
    """Compare where subjects find a place in two clusters, each alone while everything else runs on.

    Each subject is judged as if its own pods ended and were created again. What several subjects would take from each
    other when all of them start again is not counted.

    Args:
        subjects: Those of `subjects_of`.
        before: The cluster as it is.
        after: The cluster as it would be; its digests must differ where it does (`policies.view.ChangedView`).
    """
    first, then = FitFinder(before), FitFinder(after)
    for number, subject in enumerate(subjects):
        if number >= MOST_SUBJECTS:
            skipped = Fit(Feasibility.UNKNOWN, None, frozenset(), f"more than {MOST_SUBJECTS:,} templates to compare")
            yield FitComparison(subject, skipped, skipped, Outcome.UNKNOWN, f"not compared: {skipped.why}")
            continue
        was = first.fit(subject)
        will_be = then.fit(subject, was.nodes)
        outcome = _outcome(was, will_be)
        yield FitComparison(subject, was, will_be, outcome, _sentence(subject, was, will_be, outcome))


def affected_subjects(
    subjects: Iterable[Subject],
    before: Situation,
    after: Situation,
    nodes: frozenset[str],
) -> Iterator[tuple[Subject, bool]]:
    """Each subject, and whether a change of some nodes can concern it.

    Args:
        subjects: Those of `subjects_of`.
        before: The cluster as it is.
        after: The cluster as it would be.
        nodes: The names of all nodes that differ, or whose devices differ; nothing else may differ that places depend on.
    """
    first, then = FitFinder(before), FitFinder(after)
    is_exact = first.has_local_devices and then.has_local_devices
    for subject in subjects:
        was, will_be = first.service_of(subject, nodes), then.service_of(subject, nodes)
        is_same = was == will_be
        if not is_same and was.requested == will_be.requested and not (was.failure or will_be.failure):
            # The nodes on which its pods run are as before: each finds the place again that it has.
            own = frozenset(node for pod in subject.pods if (node := _node_of(pod))) - nodes
            is_same = bool(own) and first.service_of(subject, own).room >= subject.count
        yield subject, not (is_exact and is_same)


def _node_of(pod: Object) -> str:
    node = lookup(pod, ("spec", "nodeName"))
    return node if isinstance(node, str) else ""


def _outcome(before: Fit, after: Fit) -> Outcome:
    if Feasibility.UNKNOWN in (before.verdict, after.verdict) or before.room is None or after.room is None:
        return Outcome.UNKNOWN
    was, will_be = (before.is_possible, before.room), (after.is_possible, after.room)
    return Outcome.KEPT if was == will_be else Outcome.LOST if will_be < was else Outcome.GAINED


def _sentence(subject: Subject, before: Fit, after: Fit, outcome: Outcome) -> str:
    thing = "pod" if subject.is_pod else "claim"
    all_of_them = format_count(subject.count, thing)
    match outcome:
        case Outcome.UNKNOWN:
            known = before if before.verdict is Feasibility.UNKNOWN or before.room is None else after
            return f"unknown: {known.why}"
        case Outcome.KEPT:
            return after.why if after.room else f"as before, {after.why}"
        case Outcome.GAINED:
            return after.why if after.room else f"it would fit when others end: {after.why}"
    if not after.is_possible or not after.room:
        return after.why
    return f"only {after.room:,} of {all_of_them} would find a place; before, {before.room:,}"
