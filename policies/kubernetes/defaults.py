"""Defaults: what the API server has filled in before it asks about a pod, as far as decisions read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["with_defaults"]


def with_defaults(pod: Object) -> Object:
    """The pod, or pod template, with every limit that has no request copied to the requests.

    The API server does this to pods before admission, and not to the pod templates of workloads; a file on disk has it
    in neither. The object given is not changed, and the same object is returned where there is nothing to fill in.

    Source: SetDefaults_Pod in k8s.io/kubernetes pkg/apis/core/v1/defaults.go.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    changed = {
        field: filled
        for field in ("initContainers", "containers")
        if isinstance(spec.get(field), list)
        and (filled := [_container(container) for container in spec[field]]) != spec[field]
    }
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _container(container: Any) -> Any:
    resources = lookup(container, ("resources",))
    limits, requests = lookup(resources, ("limits",)), lookup(resources, ("requests",))
    if not isinstance(limits, dict) or not isinstance(requests, dict | None):
        return container
    missing = {name: amount for name, amount in limits.items() if name not in (requests or {})}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**(requests or {}), **missing}}}
