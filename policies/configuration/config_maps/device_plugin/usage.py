"""Usage of a configuration: by the ClusterPolicy, by labels of nodes, and by pods on these nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.named_objects import namespaced_name
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, has_ended, name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import PLUGIN_CONFIG_LABEL
from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["default_key", "is_governed", "is_used", "nodes_using", "policy_strategy", "requesting_pods"]


def is_governed(change: Change) -> bool:
    """True if the active ClusterPolicy names this ConfigMap for the device plugin."""
    named = change.facts.policy_value("devicePlugin", "config", "name")
    return change.is_read_by_operator and bool(change.name) and named == change.name


def policy_strategy(change: Change) -> str:
    """`spec.mig.strategy` of the ClusterPolicy that governs the ConfigMap; empty if it is missing.

    The operator passes it as an environment variable, which takes precedence over the file.
    """
    strategy = change.facts.policy_value("mig", "strategy") if is_governed(change) else None
    return strategy if isinstance(strategy, str) else ""


def default_key(change: Change) -> str:
    """The key for nodes without a label; empty if the ClusterPolicy does not name the ConfigMap."""
    default = change.facts.policy_value("devicePlugin", "config", "default") if is_governed(change) else None
    return default if isinstance(default, str) else ""


def nodes_using(change: Change, key: str) -> list[Object] | Unknown:
    """The nodes whose device plugin uses a key of the ConfigMap; unknown if nodes or policy are."""
    nodes = change.facts.gpu_nodes()
    if nodes is UNKNOWN or not is_governed(change):
        return UNKNOWN
    return [
        node
        for node in nodes
        if labels_of(node).get(PLUGIN_CONFIG_LABEL, default_key(change)) == key
        and runs_device_plugin(node, change.facts.view)
    ]


def is_used(change: Change, key: str) -> bool:
    """True if the ClusterPolicy or a node certainly uses a key of the ConfigMap."""
    nodes = nodes_using(change, key)
    return default_key(change) == key or (nodes is not UNKNOWN and bool(nodes))


def requesting_pods(change: Change, key: str, resource: str, more_than: int) -> list[str]:
    """The pods, as `namespace/name`, that may run on nodes with a key and request more of a resource."""
    nodes = nodes_using(change, key)
    if nodes is UNKNOWN and default_key(change) != key:
        return []
    places = None if nodes is UNKNOWN else {name_of(node) for node in nodes}
    if places is not None and not places:
        return []
    return sorted(
        namespaced_name(pod)
        for pod in change.facts.known_objects("Pod")
        if _may_run_on(pod, places) and any(amount > more_than for amount in _amounts(pod, resource))
    )


def _may_run_on(pod: Object, places: set[str] | None) -> bool:
    if has_ended(pod):
        return False
    node = lookup(pod, ("spec", "nodeName"))
    return places is None or not node or node in places


def _amounts(pod: Object, resource: str) -> Iterator[Any]:
    for field in ("initContainers", "containers"):
        containers = lookup(pod, ("spec", field))
        for container in containers if isinstance(containers, list) else []:
            try:
                yield parse_quantity(lookup(container, ("resources", "limits", resource)))
            except QuantityError:
                continue
