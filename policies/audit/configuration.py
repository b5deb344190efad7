"""Configuration that is there, reviewed as if somebody created it today."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from policies.audit.findings import found_in
from policies.audit.narrowed import Narrowed
from policies.conversion.sweep import is_ours
from policies.entries import NEVER_MATCHED
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workloads import group_of
from policies.request import Request
from policies.review import review
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.audit.report import AuditFinding
    from policies.decision import Finding
    from policies.dra.keeping_on import KeepOn
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["REVIEWED", "configuration_findings"]

REVIEWED = {
    "GPUAdmissionPolicy": ("gpu-admission.io", "configuration"),
    "GPUQuota": ("gpu-admission.io", "configuration"),
    "ClusterPolicy": ("nvidia.com", "configuration"),
    "GPUCluster": ("nvidia.com", "configuration"),
    "NVIDIADriver": ("nvidia.com", "configuration"),
    "ConfigMap": ("", "configuration"),
    "Node": ("", "nodes"),
    "DeviceClass": ("resource.k8s.io", "claims"),
    "ResourceClaimTemplate": ("resource.k8s.io", "claims"),
    "ResourceClaim": ("resource.k8s.io", "claims"),
    "ComputeDomain": ("resource.nvidia.com", "claims"),
}
"""The kinds whose objects are reviewed: their API group, and the webhook entry that is asked."""

_ONLY_THE_FIRST_COUNTS = frozenset({"ClusterPolicy", "GPUCluster"})
"""Kinds of which a second object is wrong, and the first is not for that."""
_MANY = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
"""Kinds of which there can be tens of thousands that differ in name only, as claims from one template do."""


def configuration_findings(
    namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, keep_on: KeepOn
) -> Iterator[AuditFinding]:
    """What is wrong with configuration, by the rules for its creation; of one namespace where one is given."""
    for kind in REVIEWED:
        for document, seen in _stored(kind, namespace, view, keep_on):
            keep_on()
            for finding in _review(document, seen, settings):
                yield found_in(document, finding)


def _stored(kind: str, namespace: str, view: ClusterView, keep_on: KeepOn) -> Iterator[tuple[Object, ClusterView]]:
    """The objects of a kind to review, each with the view to review it in."""
    listed = view.list(kind, namespace)
    objects = [] if listed is UNKNOWN else [each for each in listed if _is_reviewed(each, kind, namespace)]
    if kind in _MANY:
        objects = _unlike(objects, keep_on)
    if kind not in _ONLY_THE_FIRST_COUNTS or len(objects) < 2:
        yield from ((each, view) for each in objects)
        return
    objects.sort(key=lambda each: (str(lookup(each, ("metadata", "creationTimestamp")) or ""), name_of(each)))
    for number, each in enumerate(objects, 1):
        yield each, Narrowed(view, kind, objects[:number])


def _is_reviewed(document: Object, kind: str, namespace: str) -> bool:
    """Whether the webhook would be asked about an object; our own templates are made by the rules, and what goes, goes."""
    return (
        group_of(document) == REVIEWED[kind][0]
        and namespace_of(document) not in NEVER_MATCHED
        and (not namespace or namespace_of(document) == namespace)
        and lookup(document, ("metadata", "deletionTimestamp")) is None
        and not is_ours(document)
    )


def _unlike(objects: Sequence[Object], keep_on: KeepOn) -> list[Object]:
    """The first, by name, of those that are the same but for their names."""
    first: dict[tuple[str, str], Object] = {}
    for each in sorted(objects, key=name_of):
        keep_on()
        first.setdefault((namespace_of(each), json.dumps(each.get("spec"), sort_keys=True)), each)
    return list(first.values())


def _review(document: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Finding, ...]:
    group, entry = REVIEWED[document["kind"]]
    created = (
        {field: value for field, value in document.items() if field != "status"} if entry == "claims" else document
    )
    request = Request(
        created,
        group=group,
        kind=document["kind"],
        namespace=namespace_of(document),
        name=name_of(document),
        entry=entry,
    )
    return review(request, view, settings).findings
