"""The simulator: what becomes of a pod or claim on a cluster, as it is or with other usage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from policies.claims.claim_subject import Facts as ClaimFacts
from policies.devices.allocation.reading import AllocationError
from policies.fleet.cluster_digest import ResourceUsage, read_cluster, used_amounts
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import format_count, format_list
from policies.outcome.allocation import Solver, device_names, unknown_device_obstacles
from policies.outcome.claims import Obstacle, ObstacleKind, unknown_kind_remedy
from policies.outcome.node_groups import Assumption, Certainty, NodeGroups, assumptions, certainty_with, node_groups
from policies.outcome.reasons import EVERYTHING
from policies.outcome.replicas import count_replicas, pods_to_end
from policies.outcome.selector_failures import costly_selectors, failure_obstacle
from policies.outcome.survey import Survey
from policies.outcome.trials import FitCount, count_fits, device_shortages, nodes_short_of_a_resource, tainted_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.fleet.cluster_digest import Cluster
    from policies.kubernetes.nodes import Taint
    from policies.kubernetes.view import ClusterView
    from policies.outcome.question import Question
    from policies.outcome.reasons import Audience
    from policies.outcome.replicas import PodsToEnd, ReplicaCount
    from policies.outcome.trials import DeviceShortage
    from policies.rules.settings import GPUAdmissionPolicy


READ_FROM = ("Node", "Pod", "ResourceSlice", "ResourceClaim", "DeviceClass")
"""The kinds that explanations need from the whole cluster."""

_CAUSES = {
    ObstacleKind.MALFORMED: "something is malformed",
    ObstacleKind.MISSING: "something that it refers to does not exist",
    ObstacleKind.CLAIM_FULL: "a claim has as many pods as can share it",
    ObstacleKind.CLAIM_DELETED: "a claim is being deleted",
    ObstacleKind.TOO_COSTLY: "a selector is too costly",
    ObstacleKind.QUOTA_EXCEEDED: "a ResourceQuota is exceeded",
    ObstacleKind.ALLOCATION_FAILS: "Kubernetes' scheduler fails",
}


class Feasibility(StrEnum):
    """The verdict on a question."""

    FITS = "fits"
    """At least one node fits now."""
    FULL = "full"
    """No node fits now; some would fit if nothing were in use."""
    IMPOSSIBLE = "impossible"
    """No node that exists fits, even if nothing were in use."""
    BLOCKED = "blocked"
    """No node can fit; see `obstacles`."""
    UNKNOWN = "unknown"
    """Facts are missing (see `obstacles`), or the search was given up on nodes that may fit."""
    SCHEDULED = "scheduled"
    """The pod is bound, or the claim has its devices."""
    STUCK = "stuck"
    """The pod is bound, and its node cannot start it; see `obstacles`. Explanations only."""


@dataclass(frozen=True)
class PlacementOutcome:
    """The outcome of a question on a cluster."""

    question: Question
    audience: Audience
    obstacles: tuple[Obstacle, ...] = ()
    """Reasons why no node can fit, or missing facts; the worst first."""
    survey: Survey | None = None
    """The nodes; None if they were not checked, or there are obstacles."""

    @cached_property
    def replicas(self) -> ReplicaCount | None:
        """The number of such pods or claims that fit now; None if nodes were not checked."""
        return None if self.survey is None else count_replicas(self.survey)

    @property
    def nodes(self) -> int:
        """The number of nodes that were checked."""
        return 0 if self.survey is None else len(self.survey.cluster.nodes)

    @property
    def nodes_guessed(self) -> bool:
        """True if the nodes are unknown and made up from the slices."""
        return self.survey is not None and not self.survey.cluster.nodes_known

    @cached_property
    def fit_now(self) -> int:
        """The number of nodes that fit now."""
        return 0 if self.survey is None else self.survey.count()

    @cached_property
    def fit_if_empty(self) -> int:
        """The number of nodes that would fit if nothing were in use."""
        return 0 if self.survey is None else self.survey.count(empty=True)

    @cached_property
    def unknown_nodes(self) -> int:
        """The number of nodes on which the search was given up."""
        return 0 if self.survey is None else self.survey.unknown

    @cached_property
    def refusing(self) -> frozenset[str]:
        """The nodes that the scheduler may choose now, and whose device plugin then refuses the pod."""
        return frozenset() if self.survey is None else self.survey.refusing

    @property
    def missing(self) -> str:
        """A resource that is requested and no node has; empty if each is somewhere."""
        return "" if self.survey is None else self.survey.missing

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The unknown facts of the cluster that the outcome depends on, and what counts instead."""
        return () if self.survey is None else tuple(assumptions(self.survey))

    @property
    def certainty(self) -> Certainty:
        """The certainty of the verdict; if it is unknown, the headline and the obstacles say why."""
        if self.verdict is Feasibility.UNKNOWN:
            return Certainty.UNKNOWN
        if self.obstacles:
            return Certainty.SEEN
        return certainty_with(self.assumptions, fits=self.fit_now > 0, fits_if_empty=self.fit_if_empty > 0)

    @cached_property
    def groups(self) -> NodeGroups:
        """The nodes with the reasons why they do not fit, and their devices."""
        return NodeGroups() if self.survey is None else node_groups(self.survey, self.assumptions)

    def device_shortages(self, *, if_empty: bool = False) -> Sequence[DeviceShortage]:
        """The nodes that do not fit for their devices, now or if nothing is in use; the most first."""
        return () if self.survey is None else device_shortages(self.survey, if_empty=if_empty)

    def tainted_nodes(self) -> Mapping[tuple[Taint, ...], Sequence[int]]:
        """The positions of the nodes that taints alone keep the pod off; their devices are not checked."""
        return {} if self.survey is None else tainted_nodes(self.survey)

    def nodes_short_of_a_resource(self) -> Mapping[str, Mapping[int, int]]:
        """By resource, what each node that lacks it alone has left, in billionths by the node's position."""
        return {} if self.survey is None else nodes_short_of_a_resource(self.survey)

    def fits_with(
        self, question: Question, nodes: Iterable[Sequence[int]] | None = None, *, if_empty: bool = False
    ) -> FitCount:
        """The number of nodes that fit a changed question; 0 if Kubernetes' scheduler fails.

        Args:
            question: This question with a change.
            nodes: The nodes to try by their positions, those together that are alike before the change; None for all. If
                only claims change, they stay alike, and the first stands for all.
            if_empty: True to try them as if nothing were in use.
        """
        return FitCount(0) if self.survey is None else count_fits(self.survey, question, nodes, if_empty=if_empty)

    def pods_to_end(self) -> Sequence[PodsToEnd]:
        """For each node the pods of lower priority that must end for the pod to fit, fewest pods first.

        Nodes on which the scheduler preempts pods by itself are left out.
        """
        return () if self.survey is None else pods_to_end(self.survey)

    @cached_property
    def verdict(self) -> Feasibility:
        """The verdict: fits now, if empty, never, blocked, unknown or scheduled."""
        if self.obstacles:
            is_unknown = all(each.kind is ObstacleKind.FACT_UNKNOWN for each in self.obstacles)
            return Feasibility.UNKNOWN if is_unknown else Feasibility.BLOCKED
        if self.survey is None:
            return Feasibility.SCHEDULED
        if self.fit_now:
            return Feasibility.FITS
        if self.unknown_nodes:
            return Feasibility.UNKNOWN
        return Feasibility.FULL if self.fit_if_empty else Feasibility.IMPOSSIBLE

    def headline(self, *, with_replicas: bool = False) -> str:
        """The verdict in one sentence, without a full stop; the number of replicas only with `with_replicas`."""
        if self.obstacles:
            if self.verdict is Feasibility.UNKNOWN:
                return "whether it fits is unknown: facts of the cluster are missing"
            worst = self.obstacles[0]
            if worst.kind is ObstacleKind.REFUSED:
                return "it is refused before scheduling"
            return f"it fits no node: {worst.cause or _CAUSES[worst.kind]}"
        if self.survey is None:
            sees_nodes = self.audience.sees_nodes
            if node := self.question.node_name:
                return f"it is bound to {f'node {node}' if sees_nodes else 'a node'} already"
            claims = [named.claim for named in self.question.allocated]
            devices = format_list(device_names(claim.allocation for claim in claims if claim.allocation is not None))
            if not sees_nodes:
                return f"it has its devices already: {devices}"
            pools = sorted({str(result.get("pool")) for claim in claims for result in claim.allocated_devices})
            return f"it has its devices already: {devices} of pool {format_list(pools)}"
        total, unknown = len(self.survey.cluster.nodes), self.unknown_nodes
        nodes = format_count(total, "node")
        if not total:
            return "no node exists now"
        match self.verdict:
            case Feasibility.FITS:
                replicas = self._replicas_text() if with_replicas else ""
                return f"fits {self.fit_now:,} of {nodes} now{replicas}{self._refusal_text()}"
            case Feasibility.UNKNOWN:
                others = "; it fits none of the others" if unknown < total else ""
                where = f"{unknown:,} of {nodes}"
                return (
                    f"whether it fits is unknown for {where}: too many combinations of devices to try them all{others}"
                )
            case Feasibility.FULL:
                empty = self.fit_if_empty
                return f"fits none of {nodes} now; it would fit {empty:,} if nothing were in use there{self._refusal_text()}"
        if missing := self.survey.missing:
            return f"fits none of {nodes}: none has {missing}"
        return f"fits none of {nodes}, even if nothing were in use"

    def _refusal_text(self) -> str:
        """The nodes whose device plugin refuses the pod, although they may be chosen, as a clause; or empty."""
        if not self.refusing:
            return ""
        sees_one = self.audience.sees_nodes and len(self.refusing) == 1
        where = next(iter(self.refusing)) if sees_one else format_count(len(self.refusing), "node")
        return f"; the scheduler may choose {where}, where the device plugin refuses it"

    def _replicas_text(self) -> str:
        if self.replicas is None:
            return ""
        if self.question.is_one_per_node:
            return ", one pod on each"
        thing = "claim" if self.question.pod is None else "replica"
        at_least = "at least " if self.replicas.at_least else ""
        return f", {at_least}{format_count(self.replicas.count, thing)} in all"


def warm(view: ClusterView) -> None:
    """Compute the digests of a whole cluster that explanations share, so that the first one need not."""
    view.derive(read_cluster)
    view.derive(used_amounts)


def simulate(
    question: Question,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    *,
    audience: Audience = EVERYTHING,
    cluster: Cluster | None = None,
    resource_usage: ResourceUsage | None = None,
) -> PlacementOutcome:
    """Compute the outcome of a question's pod or claims on a cluster.

    Problems of the question or the cluster are part of the outcome; they raise nothing. The caller may cancel the work
    (see `policies.kubernetes.bounds`), but not the view's digest of the cluster.

    Args:
        question: One of those that `questions` makes.
        view: The cluster.
        settings: Which features the cluster has, where its version does not say.
        audience: Whose names the reasons show; the verdict and the numbers are the same for all.
        cluster: The digest to use instead of the view's, with fewer nodes or other devices in use.
        resource_usage: The usage of nodes instead of the view's.
    """
    if question.obstacles and not question.node_name:
        return _blocked_outcome(question, audience, question.obstacles)
    if question.node_name or (question.allocated and question.pod is None):
        return PlacementOutcome(question, audience)
    check_cancelled()
    cluster = view.derive(read_cluster) if cluster is None else cluster
    if cluster.problem:
        sentence = f"the ResourceSlices or claims of the cluster cannot be read: {cluster.problem}"
        return _blocked_outcome(question, audience, [Obstacle(ObstacleKind.MALFORMED, sentence)])
    if not cluster.nodes_known and not question.claims:
        sentence = "no Nodes are known, and the pod has no claim that would tell where it can run"
        return _blocked_outcome(
            question, audience, [Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, unknown_kind_remedy("Node"))]
        )
    check_cancelled()
    usage = ResourceUsage(view) if resource_usage is None else resource_usage
    survey = Survey(question, view, settings, audience, cluster=cluster, resource_usage=usage)
    try:
        if costly := costly_selectors(survey.problem):
            return _blocked_outcome(question, audience, costly)
        if failure := survey.visit_nodes():
            served = survey.checks.served_by_claims(failure.position)
            solver, facts = Solver(survey.problem, cluster.usage), ClaimFacts(view, settings)
            return _blocked_outcome(
                question, audience, [failure_obstacle(failure, survey.problem, solver, served, facts)]
            )
    except AllocationError as error:
        return _blocked_outcome(question, audience, [Obstacle(ObstacleKind.ALLOCATION_FAILS, str(error))])
    if not survey.count() and (unknown := unknown_device_obstacles(question, view)):
        return replace(_blocked_outcome(question, audience, unknown), survey=survey)
    return PlacementOutcome(question, audience, survey=survey)


def _blocked_outcome(question: Question, audience: Audience, obstacles: Iterable[Obstacle]) -> PlacementOutcome:
    ordered = sorted(obstacles, key=lambda obstacle: obstacle.kind is ObstacleKind.FACT_UNKNOWN)
    return PlacementOutcome(question, audience, tuple(ordered))
