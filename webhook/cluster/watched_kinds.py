"""The kinds that are watched for the policies, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.cluster.resources import RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DRA_SERVED_SINCE", "Watched", "watched"]

DRA_SERVED_SINCE = (1, 34)
"""The first version of Kubernetes that serves `resource.k8s.io/v1`; one before may serve the group in another version.
Source: KEP-4381, GA in 1.34."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What one list and its watch show."""

    resource: Resource
    namespace: str = ""
    """The only namespace that is looked into; empty for all of them."""
    name: str = ""
    """The only object that is looked at; empty for all of them."""
    fields: tuple[str, ...] = ()
    """Which objects are looked at, by terms of a field selector beside the name."""
    part: bool = False
    """Whether only some of the objects are kept, so that one that is not there may exist nevertheless. Only pods are."""

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
        """What the list and the watch are narrowed by, beside the path."""
        terms = (*((f"metadata.name={self.name}",) if self.name else ()), *self.fields)
        return {"fieldSelector": ",".join(terms)} if terms else {}

    @property
    def words(self) -> str:
        """What is watched, for people: `configmaps in gpu-operator`."""
        one = f" {self.name}" if self.name else ""
        return f"{self.resource.name}{one}{f' in {self.namespace}' if self.namespace else ''}"

    def covers(self, name: str, namespace: str) -> bool:
        """Whether an object of this kind would be shown."""
        return self.name in ("", name) and self.namespace in ("", namespace)


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
"""Pods that have ended hold nothing, and where jobs run they are most of all; Kubernetes' scheduler asks for the others
by the same selector."""
_MONITORS = "servicemonitors.monitoring.coreos.com"
"""The one CRD that rules ask about; all CRDs together are tens of megabytes."""


def watched(operator_namespaces: Iterable[str]) -> tuple[Watched, ...]:
    """Everything that is watched.

    Pods are listed all that have not ended, since no selector of fields tells which get GPUs, and kept where they may.
    What the GPU Operator reads is looked for where it may run: nobody needs to let us read the ConfigMaps of other
    namespaces. Secrets are not read anywhere; rules take them as unknown.

    Args:
        operator_namespaces: Where the GPU Operator may run.
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
