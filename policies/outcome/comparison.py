"""Comparisons: what a change of the cluster does to the places of its pods and claims."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from policies.kubernetes.names import format_count
from policies.kubernetes.objects import lookup
from policies.outcome.fits import Fit, FitFinder
from policies.outcome.grants import quality_changes
from policies.outcome.outcome import Feasibility

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.outcome.fits import Situation
    from policies.outcome.grants import QualityChange
    from policies.outcome.workloads import Subject

__all__ = ["MOST_SUBJECTS", "FitComparer", "FitComparison", "Outcome", "affected_subjects", "compare_fits"]

MOST_SUBJECTS = 2_000
"""Templates that are compared; each takes up to 0.1 seconds in a cluster of 5,000 nodes. The rest is unknown."""
_MOST_CHANGES = 3
"""Changes that a sentence has."""


class Outcome(StrEnum):
    """What becomes of a fact when the cluster changes."""

    KEPT = "kept"
    """It is the same, or as good."""
    CHANGED = "changed"
    """It is of another quality, and not a better one."""
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
    changes: tuple[QualityChange, ...] = ()
    """Pods that find a place, and get GPUs that are not as good as before; most of them first."""

    @property
    def changed(self) -> int:
        """The number of pods that get GPUs that are not as good as before."""
        return sum(each.pods for each in self.changes)

    @property
    def changes_text(self) -> str:
        """The changes as a clause: `2 pods would each get 1 half of Tesla-T4 instead of 1 whole Tesla-T4`."""
        thing = "pod" if self.subject.is_pod else "claim"
        return "; ".join(
            f"{format_count(each.pods, thing)} would {'each ' if each.pods > 1 else ''}get {each.words}"
            for each in self.changes[:_MOST_CHANGES]
        )


class FitComparer:
    """Compares where subjects find a place in two clusters, each alone while everything else runs on.

    Each subject is judged as if its own pods ended and were created again. What several subjects would take from each
    other when all of them start again is not counted.

    Quality counts: the GPUs that the running pods of a subject hold, or, if none runs, that they would get, must be there
    again. A pod is changed if it finds a place and gets GPUs of another product, shares instead of devices, MIG devices
    instead of whole GPUs, or less memory. Pods for which there is a choice get what they had. Pods that would not get what
    they hold even without the change are compared with what they would get. More choices, and better GPUs (a whole GPU
    instead of a share, more memory), leave a subject KEPT; it is GAINED only if more pods find a place.
    """

    def __init__(self, before: Situation, after: Situation) -> None:
        """Digest both clusters.

        Args:
            before: The cluster as it is.
            after: The cluster as it would be; its digests must differ where it does (`policies.kubernetes.view.ChangedView`).
        """
        self._before, self._after = FitFinder(before), FitFinder(after)
        self.compared = 0
        """The number of subjects so far, which is bounded by `MOST_SUBJECTS`."""

    def compare(self, subject: Subject) -> FitComparison:
        """The places of a subject before and after; unknown beyond `MOST_SUBJECTS`."""
        self.compared += 1
        if self.compared > MOST_SUBJECTS:
            skipped = Fit(Feasibility.UNKNOWN, None, frozenset(), f"more than {MOST_SUBJECTS:,} templates to compare")
            return FitComparison(subject, skipped, skipped, Outcome.UNKNOWN, f"not compared: {skipped.why}")
        was = self._before.fit(subject)
        will_be = self._after.fit(subject, was.nodes)
        outcome = _outcome(was, will_be)
        changes = _changes(subject, was, will_be)
        sentence = _sentence(subject, was, will_be, outcome)
        compared = FitComparison(subject, was, will_be, outcome, sentence, changes)
        if changes and outcome in (Outcome.KEPT, Outcome.GAINED):
            return replace(compared, outcome=Outcome.CHANGED, sentence=compared.changes_text)
        return replace(compared, sentence=f"{sentence}; {compared.changes_text}") if changes else compared


def compare_fits(subjects: Iterable[Subject], before: Situation, after: Situation) -> Iterator[FitComparison]:
    """Compare where subjects find a place in two clusters, as `FitComparer` does."""
    return map(FitComparer(before, after).compare, subjects)


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


def _changes(subject: Subject, before: Fit, after: Fit) -> tuple[QualityChange, ...]:
    """The pods that get GPUs that are not as good as those that they hold, or would get before the change."""
    if not after.is_possible or after.room is None:
        return ()
    was = Counter({frozenset({grant}): pods for grant, pods in before.held.items()})
    for today in quality_changes(was, before.grants, before.room or 0):
        # Whatever changes, these pods get other GPUs when they start again.
        was[frozenset({today.before})] -= today.pods
        was[frozenset({today.before, today.after})] += today.pods
    if not was and before.grants:
        was[frozenset(before.grants)] = min(subject.count, before.room or subject.count)
    total = after.room or (subject.count if not before.room else 0)
    return quality_changes(+was, after.grants, total)


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
