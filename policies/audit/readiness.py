"""Readiness: how many of a namespace's workloads would convert, which would not, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from policies.audit.outcomes import Outcome, Verdict, asks_device_plugin, is_converted
from policies.audit.report import Obstacle, Readiness
from policies.conversion.opt_in import Mode, mode_of
from policies.kubernetes.objects import name_of
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.outcomes import Outcomes
    from policies.audit.survey import PodForm, Survey
    from policies.decision import Finding
    from policies.dra.keeping_on import KeepOn
    from policies.view import ClusterView

__all__ = ["readiness"]

_MOST_OBSTACLES = 5
_CONVERTED = Outcome(Verdict.CONVERTS, ())
_GRAVEST = (Verdict.REFUSED, Verdict.LEFT, Verdict.CONVERTS, Verdict.STAYS)


@dataclass(slots=True)
class _Tally:
    """What is counted of a namespace."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    reasons: Counter[tuple[str, ...]] = field(default_factory=Counter)
    firsts: dict[tuple[str, ...], tuple[str, Finding]] = field(default_factory=dict)
    """Of each reason the first workload that it stops, and what is said of it."""
    preempting: Counter[tuple[str, Finding]] = field(default_factory=Counter)
    """Workloads that convert and lose preemption, each with what is said of it."""

    def add(self, label: str, count: int, outcomes: list[Outcome]) -> None:
        """Count `count` workloads, the first of them called `label`, whose pods have these outcomes."""
        told = {outcome.verdict for outcome in outcomes}
        verdict = next(verdict for verdict in _GRAVEST if verdict in told)
        self.verdicts[verdict] += count
        if verdict is Verdict.CONVERTS:
            lost = next((finding for outcome in outcomes for finding in outcome.findings), None)
            self.preempting.update({} if lost is None else {(label, lost): count})
            return
        said = {_reason(finding): finding for outcome in outcomes for finding in outcome.findings}
        for reason, finding in said.items():
            self.reasons[reason] += count
            self.firsts[reason] = min(self.firsts.get(reason, (label, finding)), (label, finding), key=lambda it: it[0])


def readiness(survey: Survey, outcomes: Outcomes, view: ClusterView, keep_on: KeepOn) -> tuple[Readiness, ...]:
    """A row for each namespace that has workloads which ask for GPUs, or that opted in."""
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for namespace, label, count, outcome in _outcomes(survey, outcomes, view, keep_on):
        tallies[namespace].add(label, count, outcome)
    for namespace in _opted_in(survey, outcomes, view):
        tallies.setdefault(namespace, _Tally())
    return tuple(_row(namespace, tallies[namespace], view) for namespace in sorted(tallies))


def _outcomes(
    survey: Survey, outcomes: Outcomes, view: ClusterView, keep_on: KeepOn
) -> Iterator[tuple[str, str, int, list[Outcome]]]:
    """Namespace, name, number and outcomes of what makes pods that ask for GPUs."""
    for workload in survey.workloads:
        keep_on()
        asking = [(form, pod) for form, pod in workload.forms if asks_device_plugin(pod, view)]
        if asking and not outcomes.never_converts(workload.namespace):
            told = [outcomes.of(workload.namespace, form, pod) for form, pod in asking]
            yield workload.namespace, f"{workload.kind} {workload.name}", 1, told
    unmade: dict[tuple[str, str], tuple[int, list[Outcome]]] = {}
    for pods in survey.pods.values():
        keep_on()
        if (outcome := _outcome_of(pods, outcomes, view)) is None:
            continue
        # What a controller makes that we are not told of counts as one workload, however many kinds of pods it has.
        labels = [(owner, 1) for owner in pods.owners] or [(f"Pod {pods.name}", pods.count)]
        for label, count in labels:
            unmade.setdefault((pods.namespace, label), (count, []))[1].append(outcome)
    for (namespace, label), (count, told) in unmade.items():
        yield namespace, label, count, told


def _outcome_of(pods: PodForm, outcomes: Outcomes, view: ClusterView) -> Outcome | None:
    """What becomes of pods that no workload speaks for; None where one does, or they ask for no GPUs."""
    if pods.is_made or pods.pod is None or outcomes.never_converts(pods.namespace):
        return None
    if is_converted(pods.pod, pods.namespace):
        return _CONVERTED
    return outcomes.of(pods.namespace, pods.form, pods.pod) if asks_device_plugin(pods.pod, view) else None


def _opted_in(survey: Survey, outcomes: Outcomes, view: ClusterView) -> Iterator[str]:
    namespaces = view.list("Namespace")
    for each in () if namespaces is UNKNOWN else namespaces:
        name = name_of(each)
        if survey.namespace not in ("", name) or outcomes.never_converts(name):
            continue
        if mode_of(name, view) in (Mode.ENABLED, Mode.PREVIEW):
            yield name


def _row(namespace: str, tally: _Tally, view: ClusterView) -> Readiness:
    verdicts = tally.verdicts
    return Readiness(
        namespace,
        mode_of(namespace, view),
        verdicts.total(),
        verdicts[Verdict.CONVERTS] + verdicts[Verdict.STAYS],
        verdicts[Verdict.REFUSED],
        verdicts[Verdict.LEFT],
        tuple(_obstacles(tally))[:_MOST_OBSTACLES],
        _preemption(tally),
    )


def _preemption(tally: _Tally) -> Obstacle | None:
    first = min(tally.preempting, key=itemgetter(0), default=None)
    return None if first is None else _obstacle(*first, tally.preempting.total())


def _obstacles(tally: _Tally) -> Iterator[Obstacle]:
    for reason, count in sorted(tally.reasons.items(), key=lambda item: (-item[1], item[0])):
        yield _obstacle(*tally.firsts[reason], count)


def _obstacle(label: str, finding: Finding, count: int) -> Obstacle:
    return Obstacle(finding.rule, finding.severity, label, finding.path, finding.message, finding.remedy, count)


def _reason(finding: Finding) -> tuple[str, ...]:
    """What is the same where several workloads are stopped for one reason."""
    return (finding.rule, finding.severity, finding.message, finding.remedy)
