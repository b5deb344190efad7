"""The problem that the solver solves: claims, nodes, slices, classes and features, put together once for a question."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.dra.allocation.features import ON_SINCE, Features
from policies.dra.allocation.index import SliceIndex
from policies.dra.allocator import Allocator
from policies.dra.claims.facts import Facts
from policies.explanation.claims import classes_of
from policies.explanation.question import NamedClaim
from policies.fleet.known_classes import known_classes
from policies.kubernetes.amounts import ONE
from policies.kubernetes.objects import name_of
from policies.view import UNKNOWN
from policies.work import CancelCheck, never_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.dra.allocation.usage import Usage
    from policies.explanation.cluster import Cluster
    from policies.explanation.question import Question
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["NO_RESOURCES", "STEPS", "AllocationProblem", "allocation_problem"]

NO_RESOURCES: frozenset[str] = frozenset()

STEPS = 20_000
"""Search steps on one node; what the scheduler would find is found in hundreds."""


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """Claims that are asked for together, and all that decides about them but nodes and usage."""

    question: Question
    claims: tuple[NamedClaim, ...]
    classes: tuple[Object, ...]
    by_resource: Mapping[str, Object]
    """The DeviceClass by extended resource that it can serve."""
    index: SliceIndex
    nodes: Sequence[Object]
    features: Features
    check_cancelled: CancelCheck = never_cancelled
    _allocators: dict[frozenset[str], Allocator] = field(default_factory=dict, init=False)
    """One for each set of resources that claims serve; against all usages together, since these share what they know."""

    def with_claim(self, number: int, claim: NamedClaim) -> AllocationProblem:
        """The same with another claim in the place of one."""
        return replace(self, claims=(*self.claims[:number], claim, *self.claims[number + 1 :]))

    def claims_on(self, resources: frozenset[str]) -> tuple[NamedClaim, ...]:
        """All claims on nodes where these extended resources are served by a claim."""
        if not resources:
            return self.claims
        return (*self.claims, _implicit_claim(self.question, self.by_resource, resources))

    def allocator(self, resources: frozenset[str], usage: Usage, budget: int = STEPS) -> Allocator:
        """An allocator for these claims.

        Raises:
            AllocationError: a field of a claim or a class is of the wrong type.
        """
        if resources not in self._allocators:
            self._allocators[resources] = Allocator(
                self.index,
                claims=[claim.claim for claim in self.claims_on(resources)],
                classes=self.classes,
                features=self.features,
                check_cancelled=self.check_cancelled,
            )
        return self._allocators[resources].against(usage, budget)


def allocation_problem(
    question: Question, cluster: Cluster, view: ClusterView, settings: GPUAdmissionPolicy, check_cancelled: CancelCheck
) -> AllocationProblem:
    """The ask of a question; of its claims alone where nodes are unknown, for nobody knows their labels and limits then."""
    by_resource = _served_by_classes(question, view) if cluster.index is not None and cluster.nodes_known else {}
    return AllocationProblem(
        question=question if cluster.nodes_known else replace(question, pod=None, resources={}),
        claims=question.claims,
        classes=(*classes_of(question.claims, view), *by_resource.values()),
        by_resource=by_resource,
        index=cluster.index or SliceIndex(()),
        nodes=cluster.nodes,
        features=_features(view, settings),
        check_cancelled=check_cancelled,
    )


def _features(view: ClusterView, settings: GPUAdmissionPolicy) -> Features:
    """What is on by default in the cluster's version; in one that is not known, what 1.36 has on."""
    facts = Facts(view, settings)
    return Features(
        admin_access=facts.offers("DRAAdminAccess") is not False,
        consumable_capacity=facts.offers("DRAConsumableCapacity") is not False,
        binding_conditions=facts.offers("DRADeviceBindingConditions") is not False,
        device_taints=facts.offers("DRADeviceTaints") is not False,
        partitionable_devices=facts.offers("DRAPartitionableDevices") is not False,
        prioritized_list=facts.offers("DRAPrioritizedList") is not False,
    )


def _served_by_classes(question: Question, view: ClusterView) -> dict[str, Object]:
    """The DeviceClass for each resource that the pod asks for and that claims can stand for in this cluster.

    Of two classes with one name, the one created later counts. A version that is not known is taken for one that has
    the feature.
    """
    version, classes = view.server_version(), known_classes(view)
    if not classes.are_listed or (version is not UNKNOWN and version < ON_SINCE["DRAExtendedResource"]):
        return {}
    standing = {name: next(map(classes.get, classes.standing_for(name)), None) for name in question.resources}
    return {name: found for name, found in standing.items() if found is not None}


def _implicit_claim(question: Question, classes: Mapping[str, Object], resources: Iterable[str]) -> NamedClaim:
    """The claim that the scheduler makes for a pod's extended resources, one request for each.

    Kubernetes has a request for each container; what counts for whether the pod fits is how many they are together.
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
    return NamedClaim("extended-resources", claim, "the pod's extended resources")
