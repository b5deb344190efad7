"""Extended resources that a pod requests from device plugins or from DeviceClasses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from policies.fleet import extended_requests
from policies.kubernetes.amounts import ONE, pod_amounts
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.products import Product
from policies.nvidia.resources import parse_resource
from policies.quota.charges import UNSEEN, DeviceDemand, DeviceKind
from policies.quota.demands.requirements import LabelRequirements
from policies.quota.devices.classes import classes
from policies.quota.devices.device_kinds import ConsumedCapacity, quota_device, replica_kind, unseen_gpu, unseen_slice
from policies.quota.devices.node_kinds import BARE, NodeKinds, mig_product_label, node_kinds
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from policies.kubernetes.pods import Pod
    from policies.nvidia.resources import GPUResource
    from policies.quota.devices.classes import Classes
    from policies.quota.devices.node_kinds import NodeKind
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["ExtendedResources", "most_held"]


def most_held(pod: Pod) -> Mapping[str, int]:
    """The largest number of devices of each resource that a pod ever holds at once.

    Init containers pass theirs on. Requests of the pod as a whole are ignored: they are for cpu and memory.
    """
    spec = {key: value for key, value in pod.spec.items() if key not in ("resources", "overhead")}
    amounts = pod_amounts(spec)
    return {name: -(-amount // ONE) for name, amount in sorted(amounts.items()) if amount > 0 and name != "pods"}


@dataclass(frozen=True)
class ExtendedResources:
    """The devices that the containers of a pod request by extended resources."""

    pod: Pod
    priority_class: str
    view: ClusterView
    settings: Quotas

    @cached_property
    def demands(self) -> Mapping[str, DeviceDemand]:
        """The demands of a pod without a node, by resource."""
        demands = {name: self._demand(name, count) for name, count in self._amounts.items()}
        return {name: demand for name, demand in demands.items() if demand is not None}

    def holdings(self, node: str, claimed: Collection[str] = ()) -> Mapping[str, DeviceDemand]:
        """The devices that a bound pod holds, by resource; the request if its node does not show the resource.

        Args:
            node: Its name.
            claimed: Resources to leave out, because a claim holds them.
        """
        found: dict[str, DeviceDemand] = {}
        for name, demand in self.demands.items():
            if name not in claimed:
                kinds = self._kinds_on(node, name)
                found[name] = (
                    DeviceDemand(demand.count, kinds, priority_class=demand.priority_class) if kinds else demand
                )
        return found

    @property
    def missing_classes(self) -> tuple[str, ...]:
        """The missing DeviceClasses that the pod requests by their implicit names."""
        names = (each for name in self._amounts for each in self._classes.standing_for(name))
        return tuple(filter(self._classes.is_missing, dict.fromkeys(names)))

    @cached_property
    def _amounts(self) -> Mapping[str, int]:
        """The amounts of extended resources that can give a GPU; most pods have none.

        While DeviceClasses are unknown, a resource of any name could. It is not charged then: if a class provides it, the
        scheduler makes a claim for it, and the claim is charged.
        """
        names = {each.name for each in extended_requests(self.pod.document, self.view) if not each.is_unlisted}
        return {name: count for name, count in most_held(self.pod).items() if name in names} if names else {}

    @cached_property
    def _classes(self) -> Classes:
        return self.view.derive(classes)

    @cached_property
    def _nodes(self) -> NodeKinds:
        known = self.view.derive(node_kinds)
        return NodeKinds({}) if known is UNKNOWN else known

    @cached_property
    def _required(self) -> LabelRequirements:
        return LabelRequirements.of(self.pod.spec)

    @cached_property
    def _allowed(self) -> frozenset[NodeKind] | None:
        """The kinds of nodes that the pod can be on; None for all."""
        if self._required.is_anything:
            return None
        return frozenset(kind for kind in {*self._nodes.all, BARE} if self._required.allow(dict(kind.labels)))

    def _demand(self, name: str, count: int) -> DeviceDemand | None:
        """The request of one resource; None if it gives no GPU."""
        resource, known = parse_resource(name), self._classes.standing_for(name)
        if resource is None and not known:
            return None
        kinds = self._plugin_kinds(name) | self._class_kinds(known)
        named = self._named_kinds(resource, known, kinds)
        if named is not None:
            return DeviceDemand(count, kinds | named, priority_class=self.priority_class)
        unseen = self._unseen(resource, known, "")
        return DeviceDemand(count, kinds, is_open=True, priority_class=self.priority_class, unseen=unseen)

    def _plugin_kinds(self, name: str) -> frozenset[DeviceKind]:
        """The kinds of devices that device plugins advertise under a name."""
        nodes = self._nodes.all if self._allowed is None else self._allowed
        return frozenset(
            replica_kind(offer.device, offer.sharing, self.settings.weights)
            for kind in nodes
            for resource, offer in kind.offers
            if resource == name
        )

    def _class_kinds(self, names: tuple[str, ...]) -> frozenset[DeviceKind]:
        """The devices of classes on nodes that the pod can be on."""
        return frozenset(
            quota_device(group.first).kind_taken(ConsumedCapacity())
            for name in names
            for group in self._classes.devices(name)
            if self._allowed is None or (on := self._nodes.with_devices(group)) is None or on & self._allowed
        )

    def _kinds_on(self, node: str, name: str) -> frozenset[DeviceKind]:
        """The kinds of devices on a node under a name; DRA devices only if its device plugin has none."""
        kind = self._nodes.by_name.get(node)
        for resource, offer in () if kind is None else kind.offers:
            if resource == name:
                return frozenset({replica_kind(offer.device, offer.sharing, self.settings.weights)})
        return frozenset(
            quota_device(group.first).kind_taken(ConsumedCapacity())
            for each in self._classes.standing_for(name)
            for group in self._classes.devices(each)
            if node in group.by_node or "" in group.by_node
        )

    def _named_kinds(
        self, resource: GPUResource | None, known: tuple[str, ...], shown: frozenset[DeviceKind]
    ) -> frozenset[DeviceKind] | None:
        """The kinds of named products that are not shown; None if pod and classes name no product."""
        keys = (
            (PRODUCT_LABEL, mig_product_label(resource)) if resource is not None and resource.mig else (PRODUCT_LABEL,)
        )
        values = self._required.values(keys)
        if values is not None:
            absent = values - self._values_shown(resource, known, keys)
            return frozenset[DeviceKind]().union(*(self._unseen(resource, known, value) for value in sorted(absent)))
        if resource is not None or not all(each in self._classes for each in known):
            return None
        needs = [self._classes.necessary_conditions(each) for each in known]
        if any(need.products is None for need in needs):
            return None
        return frozenset[DeviceKind]().union(*(need.missing_kinds(self.view, shown) for need in needs))

    def _values_shown(
        self, resource: GPUResource | None, known: tuple[str, ...], keys: tuple[str, ...]
    ) -> frozenset[str]:
        """The label values of nodes that the pod can run on and that have the requested resource."""
        allowed = self._nodes.all if self._allowed is None else self._allowed
        having = {kind for kind in allowed if resource is not None and resource.name in dict(kind.offers)}
        for each in known:
            for group in self._classes.devices(each):
                having |= (self._nodes.with_devices(group) or frozenset()) & allowed
        return frozenset(value for kind in having for key, value in kind.labels if key in keys)

    def _unseen(self, resource: GPUResource | None, known: tuple[str, ...], label: str) -> frozenset[DeviceKind]:
        """The kinds of devices of a product that no node shows; of any product if the label is empty."""
        product = Product.parse(label)
        kinds: set[DeviceKind] = set()
        if resource is not None:
            profile = resource.profile or product.profile
            kinds.add(unseen_gpu(product.name) if profile is None else unseen_slice(profile, product.name))
        for each in known:
            need = self._classes.necessary_conditions(each)
            kinds |= need.unseen(self.view, product.name) if each in self._classes else UNSEEN
        # A node whose label names a MIG profile advertises nothing else.
        return frozenset(kind for kind in kinds if product.profile is None or kind.profile)
