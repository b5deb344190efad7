"""Places pods: what lets a GPU pod run where its GPU is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.placement.place import (
    TOLERATIONS,
    is_opted_in,
    keep_tolerations,
    missing_tolerations,
    tolerate_gpu_nodes,
)

if TYPE_CHECKING:
    from policies.rules.checks import Check

__all__ = ["TOLERATIONS", "checks", "is_opted_in", "keep_tolerations", "missing_tolerations", "tolerate_gpu_nodes"]


def checks() -> tuple[Check[...], ...]:
    """All checks of placement, and of the sizes of nodes."""
    from policies.fleet import device_plugin
    from policies.placement import (
        advertised_resources,
        node_conditions,
        place,
        pod_wishes,
        resource_requests,
        selector_misspellings,
        wish_annotations,
        wish_conflicts,
        wish_labels,
    )

    return (
        advertised_resources.advertised_resources,
        node_conditions.met_wishes,
        node_conditions.met_by_labels,
        node_conditions.claimed_parts,
        place.accepted_fields,
        pod_wishes.effective_wishes,
        resource_requests.unshared_gpu,
        resource_requests.one_share,
        resource_requests.used_claims,
        resource_requests.existing_requests,
        resource_requests.existing_claims,
        selector_misspellings.existing_labels,
        wish_annotations.readable_wish,
        wish_annotations.known_annotations,
        wish_conflicts.consistent_wish,
        wish_conflicts.selectable_wish,
        wish_labels.existing_products,
        device_plugin.enough_on_a_node,
    )
