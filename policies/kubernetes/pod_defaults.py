"""Defaults that the API server fills into pods before it calls webhooks, their priority included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import items_at, lookup, name_of
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown

__all__ = [
    "created_pod",
    "default_class",
    "lowest_priority",
    "pod_priority",
    "preempts",
    "with_defaults",
    "with_limit_ranges",
]


def with_defaults(pod: Object) -> Object:
    """The pod or pod template with each limit without a request copied to the requests.

    The API server does this to pods before admission, and not to the pod templates of workloads; a file on disk has it
    in neither. The given object is not changed, and returned itself if nothing is missing.

    Source: SetDefaults_Pod in k8s.io/kubernetes pkg/apis/core/v1/defaults.go.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    changed = {
        field: filled
        for field in ("initContainers", "containers")
        if isinstance(spec.get(field), list)
        and (filled := [_with_requests(container) for container in spec[field]]) != spec[field]
    }
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _with_requests(container: Any) -> Any:
    resources = lookup(container, ("resources",))
    limits, requests = lookup(resources, ("limits",)), lookup(resources, ("requests",))
    if not isinstance(limits, dict) or not isinstance(requests, dict | None):
        return container
    missing = {name: amount for name, amount in limits.items() if name not in (requests or {})}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**(requests or {}), **missing}}}


def with_limit_ranges(pod: Object, limit_ranges: Iterable[Object]) -> tuple[Object, tuple[str, ...]]:
    """The pod with the defaults of the LimitRanges, and notes on them in the words of the API server.

    The given object is not changed. An explicit 0 prevents a default.

    Source: k8s.io/kubernetes plugin/pkg/admission/limitranger mergePodResourceRequirements.
    """
    limits, requests = container_defaults(limit_ranges)
    spec = pod.get("spec")
    if not isinstance(spec, dict) or not (limits or requests):
        return pod, ()
    notes: list[str] = []
    filled = dict(spec)
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        if isinstance(spec.get(field), list):
            filled[field] = [_with_amounts(container, what, limits, requests, notes) for container in spec[field]]
    return ({**pod, "spec": filled}, tuple(notes)) if notes else (pod, ())


def container_defaults(limit_ranges: Iterable[Object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The default limits and requests of containers; if several LimitRanges have one, the first counts.

    A missing default limit is the maximum, and a missing default request the limit. Source: SetDefaults_LimitRangeItem in
    k8s.io/kubernetes pkg/apis/core/v1/defaults.go.
    """
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for limit_range in limit_ranges:
        for item in items_at(limit_range, ("spec", "limits")):
            if lookup(item, ("type",)) == "Container":
                default = {**_amounts(item, "max"), **_amounts(item, "default")}
                limits = {**default, **limits}
                requests = {**_amounts(item, "min"), **default, **_amounts(item, "defaultRequest"), **requests}
    return limits, requests


def _amounts(item: Object, field: str) -> dict[str, Any]:
    amounts = item.get(field)
    return amounts if isinstance(amounts, dict) else {}


def _with_amounts(container: Any, what: str, limits: dict[str, Any], requests: dict[str, Any], notes: list[str]) -> Any:
    """The container with default limits and requests added; a malformed container is returned as it is."""
    resources = lookup(container, ("resources",)) or {}
    sections = [resources.get(field) or {} for field in ("requests", "limits")] if isinstance(resources, dict) else []
    if not isinstance(container, dict) or not sections or not all(isinstance(each, dict) for each in sections):
        return container
    filled = dict(resources)
    for field, word, given, defaults in zip(
        ("requests", "limits"), ("request", "limit"), sections, (requests, limits), strict=True
    ):
        missing = {name: amount for name, amount in defaults.items() if name not in given}
        if missing:
            filled[field] = {**given, **missing}
            notes.append(f"{', '.join(sorted(missing))} {word} for {what} {container.get('name', '')}")
    return {**container, "resources": filled}


_NEVER = "Never"
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has. Source: k8s.io/kubernetes pkg/apis/scheduling/helpers.go."""


def pod_priority(spec: Any, view: ClusterView) -> int | Unknown:
    """The priority of a pod; if it is not filled in yet, that of its class or of the default class."""
    priority = lookup(spec, ("priority",))
    if isinstance(priority, int):
        return priority
    name = _class_of(spec, view)
    if name is UNKNOWN:
        return UNKNOWN
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    return _value(view.get("PriorityClass", name)) if name else 0


def lowest_priority(view: ClusterView) -> int | Unknown:
    """The lowest priority that a pod can get now; 0 is that of pods without a class."""
    classes = view.list("PriorityClass")
    return UNKNOWN if classes is UNKNOWN else min([0, *map(_number, classes)])


def preempts(spec: Any, view: ClusterView) -> bool:
    """False if the `preemptionPolicy` of a pod with this spec, or of its class, is `Never`."""
    policy = lookup(spec, ("preemptionPolicy",))
    if not policy:
        name = _class_of(spec, view)
        policy = lookup(view.get("PriorityClass", name), ("preemptionPolicy",)) if isinstance(name, str) else None
    return bool(policy != _NEVER)


def default_class(view: ClusterView) -> str | Unknown:
    """The name of the default PriorityClass; the one with the lowest value if there are several.

    Empty if no class is the default.

    Source: k8s.io/kubernetes plugin/pkg/admission/priority getDefaultPriorityClass.
    """
    classes = view.list("PriorityClass")
    if classes is UNKNOWN:
        return UNKNOWN
    marked = [each for each in classes if each.get("globalDefault") is True]
    return name_of(min(marked, key=_number)) if marked else ""


def _class_of(spec: Any, view: ClusterView) -> str | Unknown:
    name = lookup(spec, ("priorityClassName",))
    return name if isinstance(name, str) and name else default_class(view)


def _value(priority_class: Object | Unknown | None) -> int | Unknown:
    return _number(priority_class) if isinstance(priority_class, dict) else UNKNOWN


def _number(priority_class: Object) -> int:
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0


def created_pod(pod: Object, namespace: str, view: ClusterView) -> Object:
    """The pod with missing requests, the defaults of LimitRanges and the default PriorityClass.

    LimitRanges and PriorityClasses that the view does not know are left out. `priority` itself is not filled in: a
    manifest that is kept with it would be refused once the value of its class changes.

    Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go: LimitRanger and Priority come before webhooks.
    """
    ranges = view.list("LimitRange", namespace)
    filled, _ = with_limit_ranges(with_defaults(pod), () if ranges is UNKNOWN else ranges)
    spec = filled.get("spec")
    default = default_class(view)
    if not default or default is UNKNOWN or not isinstance(spec, dict) or spec.get("priorityClassName"):
        return filled
    return {**filled, "spec": {**spec, "priorityClassName": default}}
