"""The functions that answer for concerns and kinds, each imported at its first use.

Importing the rules on configuration takes longer than the offline review of a pod. A server calls `load_rooms` at its
start, so that no request waits for an import.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from policies.rules import rules_on_demand

if TYPE_CHECKING:
    from policies.decision import Decision
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Review", "load_function", "load_rooms"]

Review = Callable[["Request", "ClusterView", "GPUAdmissionPolicy"], "Decision"]
"""A function that answers for a concern."""

_NAMES = {
    "conversion": "policies.review.conversion:conversion",
    "preview": "policies.review.conversion:preview",
    "placement": "policies.review.placement:placement",
    "reapply": "policies.review.conversion:reapply",
    "conversion-check": "policies.review.conversion:conversion_check",
    "access": "policies.review.access:access",
    "workloads": "policies.review.workloads:workloads",
    "claims": "policies.review.claims:claims",
    "quota": "policies.review.quota:quota",
    "configuration": "policies.review.configuration:configuration",
    # Kinds of the concern configuration that no webhook is called for.
    "Namespace": "policies.review.namespaces:namespaces",
    "PriorityClass": "policies.review.configuration:priority_classes",
    # Parts of a review that few objects need.
    "conversion record": "policies.conversion.converted_pods:conversion_record",
    "own templates": "policies.review.own_templates:with_own_templates",
    # Imported by policies.placement.place itself; named here for load_rooms.
    "wishes": "policies.placement.wishes.node_conditions:apply_wish",
    "node findings": "policies.placement.resources.findings:node_findings",
    "config map roles": "policies.review.configuration:is_configuration",
    "charges by view": "policies.review.quota:settle_by_view",
    "charges of workloads": "policies.review.workload_charges:shortages",
    "documents": "policies.review.documents:duplicate_keys",
}
"""Dotted names; the first are those of concerns."""


@cache
def load_function(name: str) -> Any:
    """The function of a concern, a kind or a part of a review."""
    return resolve_name(_NAMES[name])


@rules_on_demand
def load_rooms() -> None:
    """Import all of them now, so that no request waits for it."""
    for name in _NAMES:
        load_function(name)
