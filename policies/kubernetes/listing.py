"""Listing: commands of kubectl that print all objects of a kind, for files that describe a cluster."""

from __future__ import annotations

__all__ = ["list_command"]

_PATHS = {
    "ClusterPolicy": ("/apis/nvidia.com/v1", "clusterpolicies"),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices"),
}
"""The path of the API group and the plural of the kinds that messages name."""


def list_command(kind: str, namespace: str = "") -> str:
    """The command that writes all objects of a kind to a file, also if there are none.

    `kubectl get -o yaml` prints the same empty `kind: List` for every kind without objects. The API server's own list,
    such as `ResourceClaimList`, names its kind.
    """
    group, plural = _PATHS[kind]
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"kubectl get --raw {group}{scope}/{plural} > {plural}.json"
