"""Allocation: the claims of a question on nodes, solved once for all nodes of one shape."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from policies.devices.allocation.allocator import Allocator
from policies.devices.allocation.pools import SliceIndex
from policies.devices.allocation.reading import (
    AllocationError,
    Features,
    InvalidPoolsError,
    SearchBudgetExceeded,
)
from policies.devices.native_quotas import refused_claims
from policies.devices.resource_claims import Claim
from policies.fleet.cluster_digest import NodeShapes
from policies.fleet.device_plugin import SingleShares
from policies.fleet.known_classes import known_classes
from policies.kubernetes.names import format_list, format_ranges
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.quantities import ONE
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.outcome.claims import NamedClaim, Obstacle, ObstacleKind, classes_of, unknown_kind_remedy

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from policies.devices.allocation.pools import PoolGatherer
    from policies.devices.allocation.usage import Usage
    from policies.devices.native_quotas import NativeQuotaRefusal, QuotaUse
    from policies.fleet.cluster_digest import Cluster, Nodes
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome.question import Question
    from policies.rules.settings import GPUAdmissionPolicy


NO_RESOURCES: frozenset[str] = frozenset()

_STEPS = 20_000
"""Search steps on one node; a solution usually takes hundreds."""
_FEW_STEPS = 1_000
_MOST_GIVEN_UP = 10
"""After this number of searches that were given up, the others get a few steps only."""


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """Claims to allocate together, and the facts that decide about them, other than usage."""

    question: Question
    claims: tuple[NamedClaim, ...]
    classes: tuple[Object, ...]
    by_resource: Mapping[str, Object]
    """DeviceClasses by the extended resource that they serve."""
    index: SliceIndex
    gatherer: PoolGatherer
    nodes: Nodes
    features: Features
    shares: SingleShares
    view: ClusterView
    _allocators: dict[frozenset[str], Allocator] = field(default_factory=dict, init=False)
    """One for each set of resources that claims serve; all usages share it and its caches."""

    def with_claim(self, number: int, claim: NamedClaim) -> AllocationProblem:
        """The problem with one claim replaced."""
        return replace(self, claims=(*self.claims[:number], claim, *self.claims[number + 1 :]))

    def claims_on(self, resources: frozenset[str]) -> tuple[NamedClaim, ...]:
        """All claims on nodes where a claim serves these extended resources."""
        if not resources:
            return self.claims
        return (*self.claims, _implicit_claim(self.question, self.by_resource, resources))

    def quota_refusals(self, resources: frozenset[str], use: QuotaUse) -> tuple[NativeQuotaRefusal, ...]:
        """The ResourceQuotas that refuse the scheduler's claim for these extended resources of the pod.

        A claim that the scheduler made already is not refused.
        """
        pod = self.question.pod
        if pod is None or not resources or lookup(pod.document, ("status", "extendedResourceClaimStatus")):
            return ()
        return refused_claims(
            [each.claim for each in self.claims if each.is_new],
            pod.document,
            self.question.namespace,
            self.view,
            use,
            is_stored=self.question.written is None,
            served={name: name_of(self.by_resource[name]) for name in resources},
        )

    def allocator(self, resources: frozenset[str], usage: Usage, budget: int = _STEPS) -> Allocator:
        """An allocator for these claims.

        Raises:
            AllocationError: A field of a claim or a class has the wrong type.
        """
        if resources not in self._allocators:
            self._allocators[resources] = Allocator(
                self.index,
                claims=[claim.claim.document for claim in self.claims_on(resources)],
                classes=self.classes,
                features=self.features,
                gatherer=self.gatherer,
            )
        return self._allocators[resources].against(usage, budget)


def allocation_problem(
    question: Question, cluster: Cluster, view: ClusterView, settings: GPUAdmissionPolicy
) -> AllocationProblem:
    """The allocation problem of a question; only of its claims if the nodes are unknown."""
    by_resource = _served_by_classes(question, view) if cluster.index is not None and cluster.nodes_known else {}
    features = Features.of_cluster(view)
    return AllocationProblem(
        question=question if cluster.nodes_known else replace(question, pod=None, resources={}),
        claims=question.claims,
        classes=(*classes_of(question.claims, view), *by_resource.values()),
        by_resource=by_resource,
        index=cluster.index or SliceIndex(()),
        gatherer=cluster.gatherer(features),
        nodes=cluster.nodes,
        features=features,
        shares=SingleShares(view, settings),
        view=view,
    )


def _served_by_classes(question: Question, view: ClusterView) -> dict[str, Object]:
    """The DeviceClass of each requested resource that claims can serve in this cluster.

    If two classes serve a resource, the one created later counts. An unknown version counts as one with the feature.
    Source: KEP-5004, k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
    """
    classes = known_classes(view)
    if not classes.are_listed or Feature.DRAExtendedResource.is_on(view) is False:
        return {}
    standing = {name: next(map(classes.get, classes.standing_for(name)), None) for name in question.resources}
    return {name: found for name, found in standing.items() if found is not None}


def unknown_device_obstacles(question: Question, view: ClusterView) -> tuple[Obstacle, ...]:
    """An obstacle if claims serve a requested resource, and the devices of the cluster are unknown."""
    served = _served_by_classes(question, view) if view.list("ResourceSlice") is UNKNOWN else {}
    if not served:
        return ()
    sentence = f"no ResourceSlices are known, so the devices that serve {format_list(sorted(served))} are unknown"
    return (Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, unknown_kind_remedy("ResourceSlice")),)


def _implicit_claim(question: Question, classes: Mapping[str, Object], resources: Iterable[str]) -> NamedClaim:
    """The claim that the scheduler creates for a pod's extended resources, with one request for each.

    Kubernetes has one request for each container; only the sum decides whether the pod fits.
    """
    requests = [
        {
            "name": resource,
            "exactly": {
                "deviceClassName": name_of(classes[resource]),
                "count": -(-question.resources[resource] // ONE),
            },
        }
        for resource in sorted(resources)
    ]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "extended-resources", "namespace": question.namespace},
        "spec": {"devices": {"requests": requests}},
    }
    return NamedClaim("extended-resources", Claim(claim), "the pod's extended resources")


class SolutionState(Enum):
    """The result of allocating claims on a node."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class Solution:
    """The result for all nodes of one shape."""

    state: SolutionState
    allocations: tuple[Object, ...] = ()
    """The allocation of each claim on the node that was solved first."""
    node: int = 0
    """The position of that node."""


class Solver:
    """Solves a problem with one usage, on any number of nodes."""

    def __init__(self, problem: AllocationProblem, usage: Usage) -> None:
        self.problem = problem
        self._usage = usage
        self._allocators: dict[tuple[frozenset[str], int], Allocator] = {}
        self._shapes: dict[frozenset[str], NodeShapes] = {}
        self._solutions: dict[Hashable, Solution] = {}
        self._given_up = 0

    def shape(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Hashable:
        """A key, equal for nodes with the same solution.

        Raises:
            AllocationError: A node selector of a slice is invalid.
        """
        shapes = self._shapes.get(resources) or self._known_shapes(resources)
        number = shapes.by_position.get(position)
        if number is None:
            number = shapes.add(position, self.allocator(resources).node_shape(self.problem.nodes[position]))
        return resources, number

    def _known_shapes(self, resources: frozenset[str]) -> NodeShapes:
        """The shapes that nodes have for all questions that read the same of the devices."""
        problem, read = self.problem, self.allocator(resources).question.checks.shapes
        key = problem.gatherer, read, id(self._usage)
        shapes = problem.nodes.shapes.get(key)
        if shapes is None:
            shapes = NodeShapes(self._usage)
            problem.nodes.shapes.put(key, shapes, 1)
        self._shapes[resources] = shapes
        return shapes

    def by_shape(self, positions: Iterable[int], resources: frozenset[str]) -> Mapping[Hashable, Sequence[int]]:
        """Some nodes by their shapes.

        If `shape` raises an AllocationError, it comes last, with its node; further nodes are left out.
        """
        found: dict[Hashable, list[int]] = {}
        for position in positions:
            try:
                shape = self.shape(position, resources)
            except AllocationError as error:
                return {**found, error: [position]}
            found.setdefault(shape, []).append(position)
        return found

    def solution(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Solution:
        """The solution on a node.

        Raises:
            AllocationError: Kubernetes' scheduler fails, for all nodes.
        """
        if not self.has_claims(resources):
            return Solution(SolutionState.FITS, node=position)
        shape = self.shape(position, resources)
        if shape not in self._solutions:
            self._solutions[shape] = self._solve(position, resources)
        return self._solutions[shape]

    def solve_again(self, position: int, resources: frozenset[str], usage: Usage) -> Sequence[Object] | None:
        """The allocations on a node with another usage; None if the claims do not fit."""
        try:
            return self.problem.allocator(resources, usage).allocate(self.problem.nodes[position])
        except AllocationError:
            return None

    @property
    def solved(self) -> int:
        """The number of shapes that were solved."""
        return len(self._solutions)

    def has_claims(self, resources: frozenset[str]) -> bool:
        """True if there are claims to allocate."""
        return bool(self.problem.claims or resources)

    def allocator(self, resources: frozenset[str], budget: int = _STEPS) -> Allocator:
        """The allocator for nodes where a claim serves these extended resources."""
        key = (resources, budget)
        if key not in self._allocators:
            self._allocators[key] = self.problem.allocator(resources, self._usage, budget)
        return self._allocators[key]

    def _solve(self, position: int, resources: frozenset[str]) -> Solution:
        budget = _STEPS if self._given_up < _MOST_GIVEN_UP else _FEW_STEPS
        try:
            allocations = self.allocator(resources, budget).allocate(self.problem.nodes[position])
        except InvalidPoolsError:
            return Solution(SolutionState.DOES_NOT_FIT, node=position)
        except SearchBudgetExceeded:
            self._given_up += 1
            return Solution(SolutionState.GAVE_UP, node=position)
        if allocations is None:
            return Solution(SolutionState.DOES_NOT_FIT, node=position)
        return Solution(SolutionState.FITS, tuple(allocations), position)


def device_names(allocations: Iterable[Object]) -> tuple[str, ...]:
    """The devices of allocations by request: `gpu: gpu-0..gpu-3`."""
    by_request: dict[str, list[str]] = {}
    for allocation in allocations:
        for result in lookup(allocation, ("devices", "results")) or []:
            by_request.setdefault(str(result.get("request")), []).append(str(result.get("device")))
    return tuple(f"{request}: {format_ranges(names)}" for request, names in by_request.items())
