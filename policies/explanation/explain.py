"""The explanation of a question: obstacles first, then every node, then suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.explanation.redacted import redacted_explanation
from policies.explanation.remarks import preemption_remarks, remarks
from policies.explanation.report import Explanation, ReviewWarning
from policies.explanation.suggestions import suggestions
from policies.outcome import EVERYTHING, Feasibility, question_warnings, simulate

if TYPE_CHECKING:
    from policies.outcome import Audience, PlacementOutcome, Question
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["explain"]


def explain(
    question: Question,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    *,
    audience: Audience = EVERYTHING,
) -> Explanation:
    """Where the question's pod or claims fit, why not elsewhere, and what to change.

    Problems of the question or the cluster are part of the explanation; they raise nothing. The caller may cancel the work
    (see `policies.work`), but not the view's digest of the cluster.

    Args:
        question: one of those that `questions` makes.
        view: the cluster.
        settings: which features the cluster has, where its version does not say.
        audience: whose names the explanation shows; the verdict and the numbers are the same for all.
    """
    outcome = simulate(question, view, settings, audience=audience)
    warnings = tuple(map(ReviewWarning.of, question_warnings(question, view, settings)))
    explanation = _explanation(outcome, view, settings, warnings)
    return explanation if audience == EVERYTHING else redacted_explanation(explanation, question, view, audience)


def _explanation(
    outcome: PlacementOutcome, view: ClusterView, settings: GPUAdmissionPolicy, warnings: tuple[ReviewWarning, ...]
) -> Explanation:
    question, placed = outcome.question, outcome.replicas
    if outcome.verdict is Feasibility.SCHEDULED:
        return Explanation(question.label, Feasibility.SCHEDULED, outcome.headline())
    if outcome.obstacles or placed is None:
        return Explanation(
            question.label,
            outcome.verdict,
            outcome.headline(),
            obstacles=outcome.obstacles,
            certainty=outcome.certainty,
            converted_to=question.converted_to,
            warnings=warnings,
        )
    told = () if outcome.fit_now else suggestions(outcome, view, settings)
    return Explanation(
        label=question.label,
        verdict=outcome.verdict,
        headline=outcome.headline(with_replicas=True),
        nodes=outcome.nodes,
        nodes_guessed=outcome.nodes_guessed,
        fit_now=outcome.fit_now,
        fit_if_empty=outcome.fit_if_empty,
        unknown_nodes=outcome.unknown_nodes,
        replicas=placed.count,
        replicas_at_least=placed.at_least,
        groups=outcome.groups.shown,
        groups_left_out=outcome.groups.groups_left_out,
        nodes_left_out=outcome.groups.nodes_left_out,
        suggestions=told,
        converted_to=question.converted_to,
        warnings=warnings,
        remarks=(*remarks(outcome, view), *preemption_remarks(told)),
        certainty=outcome.certainty,
    )
