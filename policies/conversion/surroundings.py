"""What a conversion meets in the cluster: classes, devices, quotas, templates, nodes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.conversion.rules import FOREIGN_TEMPLATE, NATIVE_QUOTA, NO_CLASS, TWICE, UNSATISFIABLE
from policies.decision import Severity
from policies.dra.deviceclasses import device_type, extended_resource_name
from policies.dra.inventory import DeviceGroup, inventory
from policies.kubernetes.nodes import allocatable
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.nvidia.predicates import TRUE
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.asked import Asked
    from policies.decision import Finding, Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy

__all__ = ["class_problems", "quota_problems", "template_problems", "twice", "unsatisfied"]

_IMPLICIT_QUOTA_SINCE = (1, 36)


def class_problems(asked: Asked, view: ClusterView, places: dict[str, FieldPath]) -> Iterator[Finding]:
    """DeviceClasses that the claim would name and that do not exist; `places` says where each resource is asked."""
    for resource, path in places.items():
        name = asked.device_class(resource)
        if view.get("DeviceClass", name) is None:
            yield NO_CLASS.finding(path, f'becomes a claim of DeviceClass "{name}", which does not exist')


def template_problems(template: Template, view: ClusterView) -> Iterator[Finding]:
    """A template of this name with another content."""
    existing = view.get("ResourceClaimTemplate", template.name, template.namespace)
    if isinstance(existing, dict) and existing.get("spec") != template.spec:
        yield FOREIGN_TEMPLATE.finding(
            SPEC / "resourceClaims",
            f'needs the ResourceClaimTemplate "{template.name}", and the one that exists has another spec',
            f"delete it (kubectl -n {template.namespace} delete resourceclaimtemplate {template.name}); "
            "it is made again when a pod needs it",
        )


def quota_problems(
    asked: Asked, view: ClusterView, namespace: str, places: dict[str, FieldPath], settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """ResourceQuotas that count a resource by name and would no longer count the pod."""
    quotas = view.list("ResourceQuota", namespace)
    if quotas is UNKNOWN:
        return
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
    if scoped or parsed is None or parsed.mig or parsed.shared:
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


def unsatisfied(
    asked: Asked, view: ClusterView, places: dict[str, FieldPath], settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """Resources that no device of the cluster matches now."""
    groups = view.derive(inventory)
    if groups is UNKNOWN:
        return
    for resource, path in places.items():
        device_class = view.get("DeviceClass", asked.device_class(resource))
        wanted_type = device_type(device_class) if isinstance(device_class, dict) else None
        if wanted_type is None:
            continue
        candidates = [group for group in groups if group.type == wanted_type]
        predicate = asked.predicates[resource]
        if not any(predicate.matches(group.device) for group in candidates):
            missed = f"no device matches {predicate.words()}; " if predicate != TRUE else ""
            yield UNSATISFIABLE.finding(
                path,
                missed + _existing(candidates, wanted_type),
                severity=Severity(settings.conversion.unsatisfiable),
            )


def _kind(wanted_type: str) -> str:
    return "whole GPU" if wanted_type == "gpu" else "MIG device"


def _existing(groups: list[DeviceGroup], wanted_type: str) -> str:
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        nodes[group.product] |= group.nodes
    if not nodes:
        return f"no ResourceSlice holds a {_kind(wanted_type)}"
    told = [f"{product} on {len(names)} node{'s' * (len(names) > 1)}" for product, names in sorted(nodes.items())]
    rest = f" and {len(told) - 5} more products" if len(told) > 5 else ""
    return f"the cluster has {', '.join(told[:5])}{rest}"


def twice(view: ClusterView, path: FieldPath) -> Iterator[Finding]:
    """Nodes that hand out GPUs both ways."""
    nodes = view.derive(_nodes_with_both)
    if nodes is UNKNOWN or not nodes:
        return
    named = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    verb = "hands" if len(nodes) == 1 else "hand"
    yield TWICE.finding(
        path, f"{named} {verb} out the same GPUs by device plugin and by DRA; two pods could get one GPU"
    )


def _nodes_with_both(view: ClusterView) -> list[str] | Unknown:
    nodes, groups = view.list("Node"), view.derive(inventory)
    if nodes is UNKNOWN or groups is UNKNOWN:
        return UNKNOWN
    with_devices = {node for group in groups for node in group.nodes}
    return sorted(name_of(node) for node in nodes if name_of(node) in with_devices and _offers_by_plugin(node))


def _offers_by_plugin(node: dict[str, object]) -> bool:
    resources = lookup(node, ("status", "allocatable"))
    return isinstance(resources, dict) and any(
        parse_resource(name) is not None and allocatable(node, name) != "0" for name in resources
    )
