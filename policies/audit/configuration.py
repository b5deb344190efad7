"""Configuration that is there, reviewed as if somebody created it today."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.audit.findings import found_in
from policies.audit.narrowed import Narrowed
from policies.conversion.sweep import is_ours
from policies.dra.allocated_claims import claim_consumers
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workloads import group_of
from policies.request import Request
from policies.review import review
from policies.view import UNKNOWN, PassingView

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
    "Namespace": ("", "configuration"),
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
        for alike, seen in _stored(kind, namespace, _Audited(view), keep_on):
            keep_on()
            findings = _review(alike[0], seen, settings)
            holders = _holders(alike) if findings else ()
            for finding in findings:
                yield replace(found_in(alike[0], finding), count=len(alike), owners=holders)


class _Audited(PassingView):
    """The cluster, whose ConfigMaps are all reviewed: what names one with a mistake in it does not repeat the mistake."""

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together."""
        listed = self.list(kind) if kind == "ConfigMap" else UNKNOWN
        return () if listed is UNKNOWN else listed


def _stored(
    kind: str, namespace: str, view: ClusterView, keep_on: KeepOn
) -> Iterator[tuple[Sequence[Object], ClusterView]]:
    """The objects of a kind to review, those together that differ in nothing that counts, and the view for the review."""
    listed = view.list(kind, "" if kind == "Namespace" else namespace)
    objects = [] if listed is UNKNOWN else [each for each in listed if _is_reviewed(each, kind, namespace)]
    if kind in _MANY:
        yield from ((alike, view) for alike in _alike(objects, keep_on))
        return
    if kind not in _ONLY_THE_FIRST_COUNTS or len(objects) < 2:
        yield from (([each], view) for each in objects)
        return
    objects.sort(key=lambda each: (str(lookup(each, ("metadata", "creationTimestamp")) or ""), name_of(each)))
    for number, each in enumerate(objects, 1):
        yield [each], Narrowed(view, kind, objects[:number])


def _is_reviewed(document: Object, kind: str, namespace: str) -> bool:
    """False for our own templates, which are made by the rules, and for what is being deleted."""
    return (
        group_of(document) == REVIEWED[kind][0]
        and namespace in ("", name_of(document) if kind == "Namespace" else namespace_of(document))
        and lookup(document, ("metadata", "deletionTimestamp")) is None
        and not is_ours(document)
    )


def _alike(objects: Sequence[Object], keep_on: KeepOn) -> list[list[Object]]:
    """The objects by name, those together that are the same but for their names."""
    together: dict[tuple[str, str], list[Object]] = {}
    for each in sorted(objects, key=name_of):
        keep_on()
        together.setdefault((namespace_of(each), json.dumps(each.get("spec"), sort_keys=True)), []).append(each)
    return list(together.values())


def _holders(claims: Sequence[Object]) -> tuple[str, ...]:
    """Who holds claims: `Pod train-0`; nothing for objects of other kinds."""
    consumers = (consumer for each in claims if each["kind"] == "ResourceClaim" for consumer in claim_consumers(each))
    return tuple(sorted({f"{_consumer_kind(each)} {lookup(each, ('name',))}" for each in consumers}))


def _consumer_kind(consumer: Any) -> str:
    resource = lookup(consumer, ("resource",))
    return "Pod" if resource == "pods" else str(resource)


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
