"""Satisfaction: whether devices of the cluster match what a pod requests."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.conversion.shares import shares_of
from policies.decision import Severity
from policies.dra.device_groups import DeviceGroup, largest_node
from policies.dra.published_devices import gpu_groups
from policies.fleet.known_classes import known_classes
from policies.fleet.node_sizes import oversized_finding
from policies.nvidia.predicates import TRUE
from policies.nvidia.wishes.device_predicate import device_predicate
from policies.phrases import format_count
from policies.rules import rule
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.record import ConversionRecord, RecordedClaim
    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath
    from policies.nvidia.predicates import Predicate
    from policies.settings import GPUAdmissionPolicy

__all__ = ["unmatched_requests"]


UNSATISFIABLE = rule(
    "GA313",
    "A device of the cluster must match the request",
    default=Severity.WARN,
    setting="conversion.unsatisfiable",
    why="""
    No ResourceSlice holds a device like this now, so the pod will be Pending. That may pass: an autoscaled cluster has
    no GPU node until the first pod requests one, and a driver upgrade empties the slices. It may also be a misspelt
    product.""",
    remedy="compare with what exists, or wait for such a node",
    source="ResourceSlices of the cluster",
    unmatched=True,
)


def unmatched_requests(
    record: ConversionRecord, view: ClusterView, places: dict[str, FieldPath], settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """Findings about resources that no device of the cluster matches now."""
    groups = gpu_groups(view)
    if groups is UNKNOWN:
        return
    for resource, path in places.items():
        wanted_type = known_classes(view).device_type(record.device_class(resource))
        if wanted_type is None:
            continue
        candidates = [group for group in groups if group.type == wanted_type]
        predicate, shares = record.claim.predicates[resource], record.shares.get(resource, 0)
        matching = [group for group in candidates if predicate.matches(group.first)]
        mismatch = _mismatch(predicate, shares, matching)
        if mismatch is not None:
            wished = device_predicate(record.wish, record.subject(resource)) != TRUE
            text = mismatch + _existing_devices(candidates, wanted_type)
            yield UNSATISFIABLE.finding(path, text, severity=_severity(settings, wished=wished))
        elif not shares:
            yield from _too_few(resource, path, record.claim, matching)


def _too_few(resource: str, path: FieldPath, claim: RecordedClaim, matching: list[DeviceGroup]) -> Iterator[Finding]:
    """Warn if no node has as many devices as the pod requests of a resource in all."""
    wanted = sum(piece.count for piece in claim.pieces if piece.resource == resource)
    if any(group.is_shareable or group.most_on_a_node >= wanted for group in matching):
        return
    largest = largest_node(group.by_node for group in matching)
    if wanted > largest[1]:
        predicate = claim.predicates[resource]
        conditions = f" that match {predicate.words()}" if predicate != TRUE else ""
        described = f"{format_count(largest[1], _kind(matching[0].type))}{conditions}"
        yield oversized_finding(path, f"the pod requests {wanted:,}", largest, described)


def _mismatch(predicate: Predicate, shares: int, matching: list[DeviceGroup]) -> str | None:
    """The beginning of a message that no device matches; None if some device matches."""
    if any((shares_of(group.first) or 0) >= shares for group in matching):
        return None
    conditions = f" matches {predicate.words()}" if predicate != TRUE else ""
    if matching:
        return f"no device that{conditions or ' there is'} is offered in shares; "
    return f"no device{conditions}; " if conditions else ""


def _severity(settings: GPUAdmissionPolicy, *, wished: bool) -> Severity:
    """DENY if either setting refuses; the setting of placement is about wishes only."""
    denied = wished and settings.placement.unsatisfiable == "deny"
    return Severity.DENY if denied else Severity(settings.conversion.unsatisfiable)


def _kind(wanted_type: str) -> str:
    return "whole GPU" if wanted_type == "gpu" else "MIG device"


def _existing_devices(groups: list[DeviceGroup], wanted_type: str) -> str:
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        nodes[group.product].update(group.by_node)
    if not nodes:
        return f"no ResourceSlice holds a {_kind(wanted_type)}"
    products = [f"{product} on {len(names)} node{'s' * (len(names) > 1)}" for product, names in sorted(nodes.items())]
    rest = f" and {format_count(len(products) - 5, 'more product')}" if len(products) > 5 else ""
    return f"the cluster has {', '.join(products[:5])}{rest}"
