"""A plan as JSON; docs/schemas is generated from the types."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from fractions import Fraction  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING

from policies.analyses.plan.disruptions import Disruption  # noqa: TC001 - pydantic reads the annotation
from policies.analyses.plan.prediction import NodeChange  # noqa: TC001 - pydantic reads the annotation
from policies.outcome import Certainty, Feasibility, Outcome
from policies.rules.charges import Unit  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from policies.analyses.plan.plan import Plan
    from policies.outcome import Fit, FitComparison, LimitComparison, LimitUse

__all__ = ["PlanJSON", "plan_json"]


@dataclass(frozen=True, slots=True)
class _FitJSON:
    """Where something fits; `room` is null if it is unknown."""

    verdict: Feasibility
    room: int | None
    nodes: int
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _QualityChangeJSON:
    """Pods that would get other GPUs than before, and not as good ones; the GPUs of one pod as text."""

    pods: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _PlannedFitJSON:
    """The places of pods or claims before and after the change, and what to do."""

    subject: str
    namespace: str
    pods: tuple[str, ...]
    count: int
    outcome: Outcome
    sentence: str
    certainty: Certainty
    before: _FitJSON
    after: _FitJSON
    changes: tuple[_QualityChangeJSON, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class _UseJSON:
    """A limit and its use. Amounts are exact text, memory is in bytes; unknown use is null."""

    hard: Fraction
    used: Fraction | None


@dataclass(frozen=True, slots=True)
class _LimitComparisonJSON:
    """A limit before and after a change; null where it does not exist."""

    namespace: str
    limit: str
    unit: Unit
    outcome: Outcome
    sentence: str
    before: _UseJSON | None
    after: _UseJSON | None


@dataclass(frozen=True, slots=True)
class _RefusalJSON:
    """Pods that a quota would refuse when one of them starts again."""

    subject: str
    pods: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class PlanJSON:
    """The effects of a change. `fits` has only what is not kept, and `counts` counts everything.

    `changedPods` has the number of pods that would get other GPUs, by the change: `shares instead of whole GPUs`.
    """

    is_harmless: bool
    nodes: tuple[NodeChange, ...]
    disrupted: tuple[Disruption, ...]
    fits: tuple[_PlannedFitJSON, ...]
    counts: Mapping[str, int]
    changed_pods: Mapping[str, int]
    limits: tuple[_LimitComparisonJSON, ...]
    refusals: tuple[_RefusalJSON, ...]
    unknown: tuple[str, ...]
    remarks: tuple[str, ...]


def plan_json(plan: Plan) -> PlanJSON:
    """The plan as its JSON has it."""
    return PlanJSON(
        is_harmless=plan.is_harmless,
        nodes=plan.nodes,
        disrupted=plan.disrupted,
        fits=tuple(_fit_comparison(each, plan) for each in plan.fits if each.outcome is not Outcome.KEPT),
        counts={str(outcome): plan.counts.get(outcome, 0) for outcome in Outcome},
        changed_pods=plan.changed_pods,
        limits=tuple(map(_limit_comparison, plan.limits)),
        refusals=tuple(
            _RefusalJSON(each.subject.label, each.subject.pod_names, each.sentence) for each in plan.refusals
        ),
        unknown=plan.unknown,
        remarks=plan.remarks,
    )


def _fit_comparison(comparison: FitComparison, plan: Plan) -> _PlannedFitJSON:
    subject = comparison.subject
    return _PlannedFitJSON(
        subject=subject.label,
        namespace=subject.namespace,
        pods=subject.pod_names,
        count=subject.count,
        outcome=comparison.outcome,
        sentence=comparison.sentence,
        certainty=plan.certainty_of(comparison),
        before=_fit(comparison.before),
        after=_fit(comparison.after),
        changes=tuple(
            _QualityChangeJSON(each.pods, each.before.words, each.after.words) for each in comparison.changes
        ),
        remedy=plan.remedies.get(subject.label, ""),
    )


def _fit(fit: Fit) -> _FitJSON:
    return _FitJSON(fit.verdict, fit.room, len(fit.nodes), fit.why, fit.remedy)


def _limit_comparison(comparison: LimitComparison) -> _LimitComparisonJSON:
    return _LimitComparisonJSON(
        namespace=comparison.namespace,
        limit=comparison.name,
        unit=comparison.unit,
        outcome=comparison.outcome,
        sentence=comparison.sentence,
        before=_use(comparison.before),
        after=_use(comparison.after),
    )


def _use(use: LimitUse | None) -> _UseJSON | None:
    return None if use is None else _UseJSON(use.hard, use.used)
