"""Coexistence: nodes that hand out one GPU by the device plugin and by DRA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.rules import TWICE
from policies.dra.inventory import inventory
from policies.kubernetes.nodes import allocatable
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.objects import Object

__all__ = ["twice"]


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
    nodes, groups = view.derive_each("Node", _offering_by_plugin), view.derive(inventory)
    if nodes is UNKNOWN or groups is UNKNOWN:
        return UNKNOWN
    with_devices = {node for group in groups for node in group.nodes}
    return sorted(name for name in nodes if name is not None and name in with_devices)


def _offering_by_plugin(node: Object) -> str | None:
    """The name of a node that hands out GPUs by a device plugin, None of any other."""
    resources = lookup(node, ("status", "allocatable"))
    offers = isinstance(resources, dict) and any(
        parse_resource(name) is not None and allocatable(node, name) != "0" for name in resources
    )
    return name_of(node) if offers else None
