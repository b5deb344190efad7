"""Readiness: how many workloads of a namespace would convert, which would not, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from policies.audit.conversions import Conversion, ConversionResult, is_converted, requests_device_plugin
from policies.conversion.opt_in import Mode, mode_of
from policies.kubernetes.objects import name_of
from policies.view import UNKNOWN
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.conversions import Conversions
    from policies.audit.survey import PodForm, Survey
    from policies.decision import Finding, Rule, Severity
    from policies.kubernetes.paths import FieldPath
    from policies.view import ClusterView

__all__ = ["ConversionObstacle", "ConversionReadiness", "readiness"]

_MOST_OBSTACLES = 5
_CONVERTED = Conversion(ConversionResult.CONVERTED, ())
_WORST_FIRST = (
    ConversionResult.REFUSED,
    ConversionResult.DEVICE_PLUGIN,
    ConversionResult.CONVERTED,
    ConversionResult.UNNEEDED,
)


@dataclass(frozen=True, slots=True)
class ConversionObstacle:
    """Why workloads would not convert, or what they would lose; with the message for the first one."""

    rule: Rule
    severity: Severity
    workload: str
    """Kind and name of the first workload, `Deployment train`."""
    path: FieldPath
    """The place in its pod."""
    message: str
    remedy: str
    count: int
    """The number of workloads."""


@dataclass(frozen=True, slots=True)
class ConversionReadiness:
    """How conversion would treat the workloads of a namespace that request GPUs from the device plugin."""

    namespace: str
    mode: Mode
    """The present mode of the namespace."""
    workloads: int
    """The number of objects with pod templates, and of pods without such an object."""
    converts: int
    """Workloads that are converted, or need no conversion because a DeviceClass stands for the resource."""
    refused: int
    """Workloads that would be refused."""
    left: int
    """Workloads that would stay with the device plugin."""
    obstacles: tuple[ConversionObstacle, ...] = ()
    """Why workloads are refused or left; the one with the most workloads first."""
    preemption: ConversionObstacle | None = None
    """Workloads that can preempt other pods now, but not as converted pods; None if there are none."""
    pods_known: bool = True
    """False if pods cannot be read, so that workloads may be missing."""

    @property
    def is_ready(self) -> bool | None:
        """True if all workloads convert; None if those that are known do, and others may be missing."""
        if self.converts != self.workloads:
            return False
        return True if self.pods_known else None


@dataclass(slots=True)
class _Tally:
    """The counts of one namespace."""

    results: Counter[ConversionResult] = field(default_factory=Counter)
    reasons: Counter[tuple[str, ...]] = field(default_factory=Counter)
    firsts: dict[tuple[str, ...], tuple[str, Finding]] = field(default_factory=dict)
    """For each reason the first workload that it stops, and the finding."""
    preempting: Counter[tuple[str, Finding]] = field(default_factory=Counter)
    """Workloads that convert and lose preemption, each with the finding."""

    def add(self, label: str, count: int, conversions: list[Conversion]) -> None:
        """Count `count` workloads, the first of them called `label`, with the conversions of their pods."""
        results = {conversion.result for conversion in conversions}
        result = next(result for result in _WORST_FIRST if result in results)
        self.results[result] += count
        if result is ConversionResult.CONVERTED:
            lost = next((finding for conversion in conversions for finding in conversion.findings), None)
            self.preempting.update({} if lost is None else {(label, lost): count})
            return
        findings = {_reason(finding): finding for conversion in conversions for finding in conversion.findings}
        for reason, finding in findings.items():
            self.reasons[reason] += count
            self.firsts[reason] = min(self.firsts.get(reason, (label, finding)), (label, finding), key=itemgetter(0))

    def row(self, namespace: str, mode: Mode, *, pods_known: bool) -> ConversionReadiness:
        """The counts as a row of the report."""
        reasons = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))[:_MOST_OBSTACLES]
        first = min(self.preempting, key=itemgetter(0), default=None)
        return ConversionReadiness(
            namespace,
            mode,
            workloads=self.results.total(),
            converts=self.results[ConversionResult.CONVERTED] + self.results[ConversionResult.UNNEEDED],
            refused=self.results[ConversionResult.REFUSED],
            left=self.results[ConversionResult.DEVICE_PLUGIN],
            obstacles=tuple(_obstacle(*self.firsts[reason], count) for reason, count in reasons),
            preemption=None if first is None else _obstacle(*first, self.preempting.total()),
            pods_known=pods_known,
        )


def readiness(survey: Survey, conversions: Conversions, view: ClusterView) -> tuple[ConversionReadiness, ...]:
    """A row for each namespace that has opted in, or has workloads that request GPUs."""
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    for namespace, label, count, of_pods in _workload_conversions(survey, conversions, view):
        tallies[namespace].add(label, count, of_pods)
    for namespace in _opted_in(survey, conversions, view):
        tallies.setdefault(namespace, _Tally())
    pods_known = "Pod" not in survey.missing
    return tuple(
        tallies[namespace].row(namespace, mode_of(namespace, view), pods_known=pods_known)
        for namespace in sorted(tallies)
    )


def _workload_conversions(
    survey: Survey, conversions: Conversions, view: ClusterView
) -> Iterator[tuple[str, str, int, list[Conversion]]]:
    """Namespace, label, count and conversions of workloads, and of pods without one, that request GPUs."""
    for workload in survey.workloads:
        check_cancelled()
        requesting = [(form, pod) for form, pod in workload.forms if requests_device_plugin(pod, view)]
        if requesting and not conversions.never_converts(workload.namespace):
            of_pods = [conversions.of(workload.namespace, form, pod) for form, pod in requesting]
            yield workload.namespace, f"{workload.kind} {workload.name}", 1, of_pods
    without_workload: dict[tuple[str, str], tuple[int, list[Conversion]]] = {}
    for pods in survey.pods.values():
        check_cancelled()
        if (conversion := _conversion_of_lone_pods(pods, conversions, view)) is None:
            continue
        # An unknown controller counts as one workload, however many kinds of pods it has.
        labels = [(owner, 1) for owner in pods.owners] or [(f"Pod {pods.first.name}", pods.count)]
        for label, count in labels:
            without_workload.setdefault((pods.namespace, label), (count, []))[1].append(conversion)
    for (namespace, label), (count, of_pods) in without_workload.items():
        yield namespace, label, count, of_pods


def _conversion_of_lone_pods(pods: PodForm, conversions: Conversions, view: ClusterView) -> Conversion | None:
    """The conversion of pods without a known workload; None if they have one, or request no GPUs."""
    if pods.has_workload or pods.pod is None or conversions.never_converts(pods.namespace):
        return None
    if is_converted(pods.pod):
        return _CONVERTED
    return conversions.of(pods.namespace, pods.form, pods.pod) if requests_device_plugin(pods.pod, view) else None


def _opted_in(survey: Survey, conversions: Conversions, view: ClusterView) -> Iterator[str]:
    namespaces = view.list("Namespace")
    for each in () if namespaces is UNKNOWN else namespaces:
        name = name_of(each)
        if survey.namespace not in ("", name) or conversions.never_converts(name):
            continue
        if mode_of(name, view) in (Mode.ENABLED, Mode.PREVIEW):
            yield name


def _obstacle(label: str, finding: Finding, count: int) -> ConversionObstacle:
    return ConversionObstacle(
        finding.rule, finding.severity, label, finding.path, finding.message, finding.remedy, count
    )


def _reason(finding: Finding) -> tuple[str, ...]:
    """Equal for findings that stop several workloads for one reason."""
    return (finding.rule.id, finding.severity, finding.message, finding.remedy)
