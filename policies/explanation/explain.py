"""The explanation of a question: obstacles first, then every node, then suggestions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.claims.facts import Facts as ClaimFacts
from policies.explanation import headlines
from policies.explanation.audience import EVERYTHING
from policies.explanation.cluster import ResourceUsage, read_cluster
from policies.explanation.device_outcomes import DeviceOutcomes
from policies.explanation.node_groups import node_groups
from policies.explanation.nodes import NodeChecks
from policies.explanation.problem import allocation_problem, unknown_device_obstacles
from policies.explanation.question import Obstacle, ObstacleKind
from policies.explanation.redacted import redacted_explanation
from policies.explanation.remarks import preemption_remarks, remarks
from policies.explanation.replicas import count_replicas
from policies.explanation.report import Explanation, Feasibility, ReviewWarning
from policies.explanation.selector_failures import costly_selectors, failure_obstacle
from policies.explanation.solver import Solver
from policies.explanation.suggestions import suggestions
from policies.explanation.survey import SurveyedQuestion, survey
from policies.work import check_cancelled

if TYPE_CHECKING:
    from policies.explanation.audience import Audience
    from policies.explanation.cluster import Cluster
    from policies.explanation.question import Question
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
    explanation = _explanation(question, view, settings, audience)
    return explanation if audience == EVERYTHING else redacted_explanation(explanation, question, view, audience)


def _explanation(
    question: Question,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    audience: Audience,
) -> Explanation:
    if question.obstacles and not question.node_name:
        return _blocked_explanation(question)
    if question.node_name or (question.allocated and question.pod is None):
        return Explanation(question.label, Feasibility.SCHEDULED, headlines.scheduled_headline(question, audience))
    check_cancelled()
    cluster = view.derive(read_cluster)
    if cluster.problem:
        sentence = f"the ResourceSlices or claims of the cluster cannot be read: {cluster.problem}"
        return _blocked_explanation(replace(question, obstacles=(Obstacle(ObstacleKind.MALFORMED, sentence),)))
    if not cluster.nodes_known and not question.claims:
        sentence = "no Nodes are known, and the pod has no claim that would tell where it can run"
        remedy = "add them: kubectl get nodes -o yaml > nodes.yaml"
        return _blocked_explanation(
            replace(question, obstacles=(Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, remedy),))
        )
    return _explain_by_survey(question, cluster, view, settings, audience)


def _blocked_explanation(question: Question) -> Explanation:
    obstacles = sorted(question.obstacles, key=lambda obstacle: obstacle.kind is ObstacleKind.FACT_UNKNOWN)
    verdict, headline = headlines.obstacle_headline(obstacles)
    return Explanation(
        question.label,
        verdict,
        headline,
        obstacles=tuple(obstacles),
        converted_to=question.converted_to,
        warnings=tuple(map(ReviewWarning.of, question.warnings)),
    )


def _explain_by_survey(
    question: Question,
    cluster: Cluster,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    audience: Audience,
) -> Explanation:
    check_cancelled()
    resource_usage = ResourceUsage(view)
    problem = allocation_problem(question, cluster, view, settings)
    checks = NodeChecks(problem.question, cluster.nodes, resource_usage, problem.by_resource)
    try:
        if costly := costly_selectors(problem):
            return _blocked_explanation(replace(question, obstacles=costly))
        found = survey(problem, checks, cluster, audience)
        if found.failure is not None:
            position = found.failure.position
            solver = Solver(problem, cluster.usage)
            failure = failure_obstacle(
                found.failure, problem, solver, checks.served_by_claims(position), ClaimFacts(view, settings)
            )
            return _blocked_explanation(replace(question, obstacles=(failure,)))
        if not found.count() and (unknown := unknown_device_obstacles(question, view)):
            return _blocked_explanation(replace(question, obstacles=unknown))
        placed = count_replicas(problem, checks, found, cluster.usage)
        facts = SurveyedQuestion(question, problem, found, cluster, resource_usage, view, settings, audience)
        told = () if found.count() else suggestions(facts)
    except AllocationError as error:
        return _blocked_explanation(replace(question, obstacles=(Obstacle(ObstacleKind.ALLOCATION_FAILS, str(error)),)))
    verdict, headline = headlines.survey_headline(question, found, len(cluster.nodes), placed)
    groups, groups_left_out, nodes_left_out = node_groups(
        found.groups, question, cluster.nodes, audience, DeviceOutcomes(facts).of
    )
    return Explanation(
        label=question.label,
        verdict=verdict,
        headline=headline,
        nodes=len(cluster.nodes),
        nodes_guessed=not cluster.nodes_known,
        fit_now=found.count(),
        fit_if_empty=found.count(empty=True),
        unknown_nodes=found.unknown,
        replicas=placed.count,
        replicas_at_least=placed.at_least,
        groups=groups,
        groups_left_out=groups_left_out,
        nodes_left_out=nodes_left_out,
        suggestions=told,
        converted_to=question.converted_to,
        warnings=tuple(map(ReviewWarning.of, question.warnings)),
        remarks=(
            *remarks(question, problem.by_resource, cluster, view, resource_usage, audience),
            *preemption_remarks(told),
        ),
    )
