"""Objects that tests created in a cluster, so that all of them are removed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from testbed.waiting import until

if TYPE_CHECKING:
    from testbed.api import API


OWNER = "gpu-admission-tests"
_LABEL = "app.kubernetes.io/managed-by"
_GONE_SECONDS = 90
_KINDS = (
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "Namespace",
    "ResourceSlice",
    "Node",
    "DeviceClass",
    "ClusterRoleBinding",
    "ClusterRole",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "CustomResourceDefinition",
)
"""Cluster-scoped kinds in the order of their removal: webhooks first, so that they refuse nothing."""


class Belongings:
    """Objects that carry our label."""

    def __init__(self, api: API) -> None:
        self._api = api

    def add(self, document: dict[str, Any], *, may_exist: bool = False) -> dict[str, Any]:
        """Create an object with our label.

        Args:
            document: The object.
            may_exist: True if an existing object of this name suffices; it is not changed.

        Raises:
            AssertionError: The object was refused, or exists.
        """
        metadata = document["metadata"]
        marked = {**document, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), _LABEL: OWNER}}}
        answer = self._api.create(marked)
        if may_exist and answer.code == 409:
            answer = self._api.get(document["kind"], metadata["name"], metadata.get("namespace", ""))
        stored: dict[str, Any] = answer.object
        return stored

    def clear(self) -> None:
        """Remove everything with our label, and wait until namespaces and definitions are gone."""
        for kind in _KINDS:
            for item in self._all(kind):
                if kind == "Namespace":
                    self.empty(item["metadata"]["name"])
                self._api.delete(kind, item["metadata"]["name"], propagationPolicy="Background")
        for kind in ("Namespace", "CustomResourceDefinition"):
            until(partial(self._is_gone, kind), f"every {kind} of ours is gone", _GONE_SECONDS)

    def empty(self, namespace: str) -> int:
        """Remove pods, since nodes without a kubelet keep them; returns how many there were."""
        pods = self._api.list("Pod", namespace)
        for pod in pods:
            self._api.delete("Pod", pod["metadata"]["name"], namespace, gracePeriodSeconds=0)
        return len(pods)

    def _is_gone(self, kind: str) -> bool:
        return not self._all(kind)

    def _all(self, kind: str) -> list[Any]:
        return self._api.list(kind, labelSelector=f"{_LABEL}={OWNER}")
