"""Prediction: the cluster after changed configuration has taken effect on every node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.analyses.migrate.migrated_cluster import claim_key, claimed_pod, claims_of_pods, free_devices
from policies.analyses.plan.node_changes import ChangedObjects, has_gpus, node_change
from policies.analyses.plan.node_configuration import Configurations
from policies.fleet.offers.published import slice_key
from policies.fleet.operands import cluster_classes
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.view import ChangedView
from policies.nvidia.mig_products import estimates_clause
from policies.outcome import Situation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.analyses.plan.node_changes import NodeChange
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome import FitComparison
    from policies.rules.settings import GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class Prediction:
    """The cluster after a change."""

    after: Situation
    nodes: tuple[NodeChange, ...]
    """In the order of the cluster."""
    changed: frozenset[Key]
    """All objects that differ."""
    ends: tuple[Situation, ...] = ()
    """The same with the least and with the most memory that is possible where it is estimated; empty without estimates."""
    labels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The least and the most value of each label of a node that is estimated."""
    held: Mapping[Key, Object] = field(default_factory=dict)
    """Claims for the devices that running pods hold by the device plugin on nodes where a DRA driver takes its place."""
    conflict: str = ""
    """The resources that exclude each other afterwards, so that the operator changes no node, as a clause; or empty."""

    def with_held_devices(self, situation: Situation) -> Situation:
        """A cluster of the prediction in which no GPU is free that a running pod holds."""
        return situation._replace(view=ChangedView(situation.view, self.held)) if self.held else situation

    def with_new_pods(self, situation: Situation, fits: Iterable[FitComparison]) -> Situation:
        """A cluster of the prediction in which pods that get claims have started again, as quotas count them.

        Args:
            situation: The cluster.
            fits: The places of all pods that the change concerns.
        """
        objects: dict[Key, Object | None] = {}
        for each in fits if self.held else ():
            for pod in each.subject.pods if each.after.is_possible else ():
                claim = claim_key(each.subject.namespace, name_of(pod))
                if claim in self.held:
                    key = "Pod", each.subject.namespace, name_of(pod)
                    objects[key], objects[claim] = claimed_pod(pod, self.held[claim])
        return situation._replace(view=ChangedView(situation.view, objects)) if objects else situation

    @property
    def estimated(self) -> str:
        """The estimated part, as a clause; empty if nothing is estimated."""
        return estimates_clause(estimate for node in self.nodes for estimate in node.estimates)


def predict(before: Situation, objects: Mapping[Key, Object | None], settings: GPUAdmissionPolicy) -> Prediction:
    """The cluster after objects are stored or deleted, and the operator's components have followed them.

    Args:
        before: The cluster as it is.
        objects: Stored objects as they are to be; None for one that is deleted.
        settings: The administrator's settings after the change.
    """
    stored = Situation(ChangedView(before.view, objects), settings)
    was = Configurations(before)
    will_be = Configurations(stored, was)
    found = ChangedObjects({**objects, **_changed_classes(was, will_be, stored.view, objects)})
    nodes: list[NodeChange] = []
    for node in stored.view.known_objects("Node") if not will_be.conflict else ():
        old = before.view.get("Node", name_of(node))
        if not isinstance(old, dict) or not has_gpus(old, before.view):
            continue
        first, second = was.of(old), will_be.of(node, old)
        if not second.has_mig_manager:
            second = replace(
                second, mig_config=first.mig_config, mig_entries=first.mig_entries, unknown_cut=first.unknown_cut
            )
        if first != second:
            change = node_change(old, node, first, second, before.view, found)
            nodes += [] if change is None else [change]
    gone = {name for (kind, _, name), document in objects.items() if kind == "Node" and document is None}
    changed = found.changed | {
        slice_key(each): None
        for each in (before.view.known_objects("ResourceSlice") if gone else ())
        if lookup(each, ("spec", "nodeName")) in gone
    }
    after, *ends = (
        Situation(ChangedView(before.view, changed | each), settings)
        for each in ({}, *(found.ends if any(found.ends) else ()))
    )
    held = _held_devices(before.view, after.view, found.moved)
    return Prediction(
        after, tuple(nodes), frozenset(changed), tuple(ends), found.labels, held, conflict=will_be.conflict
    )


def _held_devices(before: ClusterView, after: ClusterView, moved: Mapping[str, Mapping[str, str]]) -> dict[Key, Object]:
    """Claims for the devices that pods hold where a DRA driver takes the place of the device plugin.

    Args:
        before: The cluster before the change.
        after: The cluster after it.
        moved: The nodes, each with its labels before.
    """
    if not moved:
        return {}
    free = free_devices(after)
    return claims_of_pods(before, {node: labels for node, labels in moved.items() if node in free}, free)[0]


def _changed_classes(
    was: Configurations, will_be: Configurations, view: ClusterView, objects: Iterable[Key]
) -> dict[Key, Object | None]:
    """The DeviceClasses that the operator creates, overwrites or removes with a GPUCluster.

    It writes them anew every minute, so that one that a user deletes is there again.

    Source: github.com/NVIDIA/gpu-operator controllers/gpucluster_controller.go Reconcile; internal/state/state_skel.go
    syncObjects, createOrUpdateObjs.
    """
    if will_be.conflict:
        return {}
    after = {} if will_be.cluster is None else cluster_classes(will_be.cluster)
    owned = {} if was.cluster is None or was.conflict else cluster_classes(was.cluster)
    written = {name for kind, _, name in objects if kind == "DeviceClass"}
    found: dict[Key, Object | None] = {("DeviceClass", "", name): None for name in owned if name not in after}
    for name, document in after.items():
        stored = view.get("DeviceClass", name)
        if not isinstance(stored, dict):
            found["DeviceClass", "", name] = document
        elif stored.get("spec") != document["spec"] and (name not in owned or name in written):
            found["DeviceClass", "", name] = {**stored, "spec": document["spec"]}
    return found
