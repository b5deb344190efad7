"""Defaults that the API server fills into pods before it calls webhooks, if decisions read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import items_at, lookup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object


__all__ = ["with_defaults", "with_limit_ranges"]


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
