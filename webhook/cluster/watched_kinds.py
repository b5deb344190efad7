"""The kinds that are watched for the policies, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.view import UNKNOWN, Unknown
from webhook.cluster.resources import RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DRA", "DRA_SERVED_SINCE", "Watched", "serves_dra_in_v1", "watched_kinds"]

DRA = "resource.k8s.io"
"""The group of claims, classes and slices."""
DRA_SERVED_SINCE = (1, 34)
"""The first version of Kubernetes that serves `resource.k8s.io/v1`; one before may serve the group in another version.
Source: KEP-4381, GA in 1.34."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The objects of one list and watch."""

    resource: Resource
    namespace: str = ""
    """The only namespace; empty for all."""
    name: str = ""
    """The only object; empty for all."""
    fields: tuple[str, ...] = ()
    """Further terms of the field selector."""
    labels: str = ""
    """The label selector."""
    part: bool = False
    """True if not all objects are kept, so that a missing one may exist. Only for pods."""

    @property
    def kind(self) -> str:
        """The kind of the objects."""
        return self.resource.kind

    @property
    def path(self) -> str:
        """The path of the collection that is listed and watched."""
        return self.resource.path(self.namespace)

    @property
    def query(self) -> dict[str, str]:
        """The query of the list and the watch: the selectors, if any."""
        terms = (*((f"metadata.name={self.name}",) if self.name else ()), *self.fields)
        selectors = {"fieldSelector": ",".join(terms), "labelSelector": self.labels}
        return {name: selector for name, selector in selectors.items() if selector}

    @property
    def words(self) -> str:
        """The watched objects, for messages: `configmaps in gpu-operator`."""
        one = f" {self.name}" if self.name else ""
        return f"{self.resource.name}{one}{f' in {self.namespace}' if self.namespace else ''}"

    def within(self, namespace: str) -> Watched:
        """The same objects, in one namespace only if it is not empty."""
        return replace(self, namespace=namespace or self.namespace)

    def covers(self, name: str, namespace: str) -> bool:
        """True if an object of this kind with this name is watched."""
        return self.name in ("", name) and self.namespace in ("", namespace)


def serves_dra_in_v1(version: tuple[int, int] | Unknown) -> bool:
    """True if an API server of this version serves DRA as `resource.k8s.io/v1`, or not at all."""
    return version is not UNKNOWN and version >= DRA_SERVED_SINCE


_EVERYWHERE = (
    "Node",
    "Namespace",
    "LimitRange",
    "ResourceQuota",
    "RuntimeClass",
    "PriorityClass",
    "PodGroup",
    "DeviceClass",
    "ResourceSlice",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ClusterPolicy",
    "NVIDIADriver",
    "GPUCluster",
    "ComputeDomain",
    "GPUAdmissionPolicy",
    "GPUQuota",
    "ClusterTrainingRuntime",
    "TrainingRuntime",
    "Prometheus",
    "ServiceMonitor",
)
_RUNNING = ("status.phase!=Succeeded", "status.phase!=Failed")
"""Pods that have ended hold nothing, and clusters that run jobs have many of them. Kubernetes' scheduler uses the same
selector."""
_MONITORS = "servicemonitors.monitoring.coreos.com"
"""The only CRD that rules read; all CRDs together are tens of megabytes."""


def watched_kinds(operator_namespaces: Iterable[str]) -> tuple[Watched, ...]:
    """Everything that is watched.

    All pods that have not ended are listed, because no field selector finds those with GPUs; only pods that may get GPUs
    are kept. ConfigMaps are read only in the namespaces of the GPU Operator, so that other namespaces need not grant it.
    Secrets are never read; rules treat them as unknown.

    Args:
        operator_namespaces: The namespaces in which the GPU Operator may run.
    """
    everywhere = [Watched(RESOURCES[kind]) for kind in _EVERYWHERE]
    operators = [
        each
        for namespace in dict.fromkeys(operator_namespaces)
        for each in (
            Watched(RESOURCES["ConfigMap"], namespace),
            Watched(RESOURCES["Deployment"], namespace, name="gpu-operator"),
        )
    ]
    crd = Watched(RESOURCES["CustomResourceDefinition"], name=_MONITORS)
    return (*everywhere, Watched(RESOURCES["Pod"], fields=_RUNNING, part=True), crd, *operators)
