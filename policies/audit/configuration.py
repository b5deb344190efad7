"""Stored configuration, reviewed as if it were created today."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.admission import review
from policies.admission.webhooks import kinds_of
from policies.audit.report import AuditFinding
from policies.conversion.sweep import is_ours
from policies.dra.resource_claims import Claim
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workloads import group_of
from policies.metadata_keys import IGNORE
from policies.request import Request
from policies.view import UNKNOWN, ChangedView, PassingView
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Key

__all__ = ["configuration_findings"]

_REVIEWED = {
    kind: (group, entry) for entry in ("configuration", "nodes", "claims") for group, kind in sorted(kinds_of(entry))
} | {"Namespace": ("", "configuration")}
"""The kinds whose objects are reviewed, each with its API group and its webhook entry."""

_ONE_PER_CLUSTER = frozenset({"ClusterPolicy", "GPUCluster"})
"""Kinds of which a second object is wrong; the first one stays right."""
_MANY = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
"""Kinds with up to tens of thousands of objects that differ in name only, such as claims from one template."""


def configuration_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """Findings on stored configuration, by the rules for new objects; an empty namespace stands for all."""
    for kind in _REVIEWED:
        for alike, narrowed in _objects_to_review(kind, namespace, _AllConfigMapsView(view)):
            check_cancelled()
            findings = _findings(alike[0], narrowed, settings)
            holders = _holders(alike) if findings else ()
            for finding in findings:
                yield AuditFinding.of_object(finding, alike[0], count=len(alike), owners=holders)


class _AllConfigMapsView(PassingView):
    """A cluster with all ConfigMaps under review: objects that refer to one do not repeat its mistakes."""

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together."""
        listed = self.list(kind) if kind == "ConfigMap" else UNKNOWN
        return () if listed is UNKNOWN else listed


def _objects_to_review(kind: str, namespace: str, view: ClusterView) -> Iterator[tuple[Sequence[Object], ClusterView]]:
    """The objects of a kind in groups of equal ones, each group with the view for its review."""
    found = view.list(kind, "" if kind == "Namespace" else namespace)
    listed = () if found is UNKNOWN else found
    objects = []
    for each in listed:
        check_cancelled()
        if _is_reviewed(each, kind, namespace):
            objects.append(each)
    if kind in _MANY:
        yield from ((alike, view) for alike in _alike(objects))
        return
    if kind not in _ONE_PER_CLUSTER or len(objects) < 2:
        yield from (([each], view) for each in objects)
        return
    objects.sort(key=lambda each: (str(lookup(each, ("metadata", "creationTimestamp")) or ""), name_of(each)))
    # Each is reviewed in a cluster without those that came after it.
    later: dict[Key, None] = {(kind, namespace_of(each), name_of(each)): None for each in listed}
    for each in objects:
        del later[kind, namespace_of(each), name_of(each)]
        yield [each], ChangedView(view, {**later})


def _is_reviewed(document: Object, kind: str, namespace: str) -> bool:
    """False for objects that are being deleted, and for our own templates, which satisfy the rules."""
    return (
        group_of(document) == _REVIEWED[kind][0]
        and namespace in ("", name_of(document) if kind == "Namespace" else namespace_of(document))
        and lookup(document, ("metadata", "deletionTimestamp")) is None
        and not is_ours(document)
    )


def _alike(objects: Sequence[Object]) -> list[list[Object]]:
    """Groups of objects that have the same namespace, spec and waivers, in the order of the names."""
    groups: dict[tuple[str, str], list[Object]] = {}
    for each in sorted(objects, key=name_of):
        check_cancelled()
        waivers = lookup(each, ("metadata", "annotations", IGNORE))
        key = namespace_of(each), json.dumps([each.get("spec"), waivers], sort_keys=True)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _holders(claims: Sequence[Object]) -> tuple[str, ...]:
    """The consumers of claims, such as `Pod train-0`; empty for objects of other kinds."""
    consumers = (consumer for each in claims if each["kind"] == "ResourceClaim" for consumer in Claim(each).consumers)
    return tuple(sorted({f"{_consumer_kind(each)} {lookup(each, ('name',))}" for each in consumers}))


def _consumer_kind(consumer: Any) -> str:
    resource = lookup(consumer, ("resource",))
    return "Pod" if resource == "pods" else str(resource)


def _findings(document: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Finding, ...]:
    group, entry = _REVIEWED[document["kind"]]
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
