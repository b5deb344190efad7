"""The allocation problem of a question: claims, nodes, slices, classes and features."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.dra.allocation.allocator import Allocator
from policies.dra.allocation.features import ON_SINCE, Features
from policies.dra.allocation.index import SliceIndex
from policies.dra.claims.facts import Facts
from policies.dra.resource_claims import Claim
from policies.explanation.claims import classes_of
from policies.explanation.cluster import BRING
from policies.explanation.question import NamedClaim, Obstacle, ObstacleKind
from policies.fleet.known_classes import known_classes
from policies.kubernetes.amounts import ONE
from policies.kubernetes.objects import name_of
from policies.phrases import format_list
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.dra.allocation.usage import Usage
    from policies.explanation.cluster import Cluster
    from policies.explanation.question import Question
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = [
    "NO_RESOURCES",
    "STEPS",
    "AllocationProblem",
    "allocation_problem",
    "claims_may_serve_resources",
    "unknown_device_obstacles",
]

NO_RESOURCES: frozenset[str] = frozenset()

STEPS = 20_000
"""Search steps on one node; a solution usually takes hundreds."""


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """Claims to allocate together, and the facts that decide about them, other than usage."""

    question: Question
    claims: tuple[NamedClaim, ...]
    classes: tuple[Object, ...]
    by_resource: Mapping[str, Object]
    """DeviceClasses by the extended resource that they serve."""
    index: SliceIndex
    nodes: Sequence[Object]
    features: Features
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

    def allocator(self, resources: frozenset[str], usage: Usage, budget: int = STEPS) -> Allocator:
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
            )
        return self._allocators[resources].against(usage, budget)


def allocation_problem(
    question: Question, cluster: Cluster, view: ClusterView, settings: GPUAdmissionPolicy
) -> AllocationProblem:
    """The allocation problem of a question; only of its claims if the nodes are unknown."""
    by_resource = _served_by_classes(question, view) if cluster.index is not None and cluster.nodes_known else {}
    return AllocationProblem(
        question=question if cluster.nodes_known else replace(question, pod=None, resources={}),
        claims=question.claims,
        classes=(*classes_of(question.claims, view), *by_resource.values()),
        by_resource=by_resource,
        index=cluster.index or SliceIndex(()),
        nodes=cluster.nodes,
        features=_features(view, settings),
    )


def _features(view: ClusterView, settings: GPUAdmissionPolicy) -> Features:
    """The features that are on by default in the cluster's version, or in 1.36 if the version is unknown."""
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
    """The DeviceClass of each requested resource that claims can serve in this cluster.

    If two classes serve a resource, the one created later counts. An unknown version counts as one with the feature.
    Source: KEP-5004, k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
    """
    classes = known_classes(view)
    if not classes.are_listed or not claims_may_serve_resources(view):
        return {}
    standing = {name: next(map(classes.get, classes.standing_for(name)), None) for name in question.resources}
    return {name: found for name, found in standing.items() if found is not None}


def claims_may_serve_resources(view: ClusterView) -> bool:
    """False if the cluster's version has no claims for extended resources."""
    version = view.server_version()
    return version is UNKNOWN or version >= ON_SINCE["DRAExtendedResource"]


def unknown_device_obstacles(question: Question, view: ClusterView) -> tuple[Obstacle, ...]:
    """An obstacle if claims serve a requested resource, and the devices of the cluster are unknown."""
    served = _served_by_classes(question, view) if view.list("ResourceSlice") is UNKNOWN else {}
    if not served:
        return ()
    sentence = f"no ResourceSlices are known, so the devices that serve {format_list(sorted(served))} are unknown"
    return (Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, BRING),)


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
