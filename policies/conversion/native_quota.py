"""Native quotas: ResourceQuotas that would stop counting a pod once it is converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.deviceclasses import GPU_CLASS, extended_resource_name
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.nvidia.resources import parse_resource
from policies.rules import rule
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.asked import Asked
    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy

__all__ = ["quota_problems"]

_IMPLICIT_QUOTA_SINCE = (1, 36)


NATIVE_QUOTA = rule(
    "GA312",
    "Conversion must not switch a ResourceQuota off",
    default=Severity.DENY,
    setting="conversion.nativeQuota",
    why="""
    A ResourceQuota on requests.nvidia.com/gpu counts what pods ask for by that name. A converted pod asks by a claim,
    which the quota counts only if the DeviceClass carries the name (spec.extendedResourceName) and the API server is
    1.36 or newer, and never for quotas with scopes. Otherwise the namespace could take every GPU.""",
    remedy="limit the namespace by a GPUQuota and remove the ResourceQuota, or set extendedResourceName on the DeviceClass",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go",
)


def quota_problems(
    asked: Asked, view: ClusterView, namespace: str, places: dict[str, FieldPath], settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """ResourceQuotas that count a resource by name and would no longer count the pod."""
    quotas = view.list("ResourceQuota", namespace)
    if quotas is UNKNOWN:
        quotas = [quota for quota in view.objects_under_review("ResourceQuota") if namespace_of(quota) == namespace]
    severity = Severity(settings.conversion.native_quota)
    for resource, path in places.items():
        for quota in quotas:
            hard = lookup(quota, ("spec", "hard"))
            key = f"requests.{resource}"
            if not isinstance(hard, dict) or key not in hard:
                continue
            scoped = bool(lookup(quota, ("spec", "scopes")) or lookup(quota, ("spec", "scopeSelector")))
            if not scoped and _class_counts(asked.device_class(resource), resource, view):
                continue
            name = asked.device_class(resource)
            yield NATIVE_QUOTA.finding(
                path,
                f'is limited by ResourceQuota "{name_of(quota)}" ({key}: {hard[key]}), which does not count claims of '
                f'DeviceClass "{name}"',
                _quota_remedy(name, resource, view, scoped=scoped),
                severity=severity,
            )


def _quota_remedy(device_class: str, resource: str, view: ClusterView, *, scoped: bool) -> str:
    remedy = "limit the namespace by a GPUQuota and remove the limit from the ResourceQuota"
    parsed = parse_resource(resource)
    if scoped or parsed is None or parsed.mig or parsed.shared or device_class != GPU_CLASS:
        return remedy
    if _carries(view.get("DeviceClass", device_class), resource):
        return f"{remedy}, or upgrade the API server to Kubernetes 1.36, which counts them"
    return f"{remedy}, or set spec.extendedResourceName: {resource} on the DeviceClass {device_class} (Kubernetes 1.36)"


def _class_counts(device_class: str, resource: str, view: ClusterView) -> bool:
    """Whether claims of the class count as the extended resource; an unknown version is given the benefit."""
    version = view.server_version()
    if version is not UNKNOWN and version < _IMPLICIT_QUOTA_SINCE:
        return False
    found = view.get("DeviceClass", device_class)
    return found is UNKNOWN or _carries(found, resource)


def _carries(device_class: Object | Unknown | None, resource: str) -> bool:
    return isinstance(device_class, dict) and extended_resource_name(device_class) == resource
