"""Facts that configuration is judged by: the other objects of a GPU cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.settings import GPUAdmissionPolicy

__all__ = ["Facts"]

_GPU_MARKS = ("nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/gpu.count")


class Facts:
    """What a view knows of the GPU Operator's surroundings. Every answer may be `UNKNOWN`."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        self.view = view
        self._settings = settings

    @property
    def operator_namespaces(self) -> tuple[str, ...]:
        """The namespaces that the GPU Operator may run in; it reads ConfigMaps and Secrets from its own only."""
        return self._settings.configuration.operator_namespaces

    @property
    def cluster_policy_deletion(self) -> Severity:
        """What the administrator wants of a ClusterPolicy that is deleted while pods use GPUs."""
        return Severity(self._settings.configuration.cluster_policy_deletion)

    def get(self, kind: str, name: str) -> Object | Unknown | None:
        """A cluster-scoped object."""
        return self.view.get(kind, name)

    def all(self, kind: str) -> Sequence[Object] | Unknown:
        """All objects of a kind."""
        return self.view.list(kind)

    def known(self, kind: str) -> Sequence[Object]:
        """All objects of a kind; none where they are unknown: for findings that need one to say anything."""
        found = self.view.list(kind)
        return () if found is UNKNOWN else found

    def operator_object(self, kind: str, name: str) -> Object | Unknown | None:
        """A ConfigMap or Secret of the operator's namespace; None only where it is in none of them for certain."""
        answers = [self.view.get(kind, name, namespace) for namespace in self.operator_namespaces]
        found = next((answer for answer in answers if isinstance(answer, dict)), None)
        return found if found is not None else UNKNOWN if UNKNOWN in answers else None

    def cluster_policy(self) -> Object | Unknown | None:
        """The ClusterPolicy that the operator follows: the oldest, then the first by name."""
        policies = self.view.list("ClusterPolicy")
        if policies is UNKNOWN:
            return UNKNOWN
        return min(policies, key=_age, default=None)

    def policy_value(self, *steps: str) -> Any:
        """What the active ClusterPolicy has at `spec.<steps>`; None where there is nothing, or no policy is known."""
        policy = self.cluster_policy()
        return lookup(policy, ("spec", *steps)) if isinstance(policy, dict) else None

    def gpu_nodes(self) -> list[Object] | Unknown:
        """The nodes that carry a label of the operator or of GPU Feature Discovery."""
        nodes = self.view.list("Node")
        if nodes is UNKNOWN:
            return UNKNOWN
        return [node for node in nodes if any(mark in labels_of(node) for mark in _GPU_MARKS)]

    def known_gpu_nodes(self) -> list[Object]:
        """The nodes with GPUs; none where nodes are unknown: for findings that need one to say anything."""
        found = self.gpu_nodes()
        return [] if found is UNKNOWN else found

    def nodes_with(self, label: str, value: str | None = None) -> list[Object]:
        """The known nodes that have a label, with a value where one is given."""
        return [
            node
            for node in self.known("Node")
            if label in labels_of(node) and (value is None or labels_of(node)[label] == value)
        ]


def _age(document: Object) -> tuple[str, str]:
    # One that is not stored yet has no timestamp, and is the youngest.
    return str(lookup(document, ("metadata", "creationTimestamp")) or "~"), name_of(document)
