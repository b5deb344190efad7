"""Extended resources that DRA drivers serve: on nodes whose kubelet offers none of them.

Source: KEP-5004, k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.feature_gates import ON_SINCE
from policies.explanation.question import NamedClaim
from policies.fleet.known_classes import known_classes
from policies.kubernetes.amounts import ONE
from policies.kubernetes.objects import name_of
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.explanation.question import Question
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["NO_RESOURCES", "implicit_claim", "served_by_classes"]

NO_RESOURCES: frozenset[str] = frozenset()


def served_by_classes(question: Question, view: ClusterView) -> dict[str, Object]:
    """The DeviceClass for each resource that the pod asks for and that claims can stand for in this cluster.

    Of two classes with one name, the one created later counts. A version that is not known is taken for one that has
    the feature.
    """
    version, classes = view.server_version(), known_classes(view)
    if not classes.are_listed or (version is not UNKNOWN and version < ON_SINCE["DRAExtendedResource"]):
        return {}
    standing = {name: next(map(classes.get, classes.standing_for(name)), None) for name in question.resources}
    return {name: found for name, found in standing.items() if found is not None}


def implicit_claim(question: Question, classes: Mapping[str, Object], resources: Iterable[str]) -> NamedClaim:
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
