"""Classes: the devices that DeviceClasses and selectors choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import CelCompileError
from policies.dra.cel.reads import Read
from policies.dra.claims.cluster.fleet import Group, fleet
from policies.dra.claims.cluster.matching import chosen
from policies.dra.claims.effort import MOST_TEXT, Effort, size_of
from policies.dra.deviceclasses import extended_resource_name, selector_texts
from policies.kubernetes.objects import name_of
from policies.nvidia.drivers import DRIVER
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.quota.asks.necessary import Necessary, necessary
from policies.quota.devices.kinds import BARE, NO_NODES, NodeKinds, node_kinds
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.dra.claims.cluster.fleet import Fleet
    from policies.kubernetes.objects import Object
    from policies.quota.devices.kinds import NodeKind

__all__ = ["NO_CLASSES", "Classes", "Hosts", "classes", "hosts"]

_READS = frozenset(
    {Read("attributes", DRIVER, name) for name in ("productName", "profile", "type")}
    | {Read("capacity", DRIVER, name) for name in ("memory", "shares")}
)
"""What a kind of device is made of."""


def classes(view: ClusterView) -> Classes | Unknown:
    """The DeviceClasses of the cluster. Use it by `view.derive(classes)`."""
    listed = view.list("DeviceClass")
    return UNKNOWN if listed is UNKNOWN else Classes({name_of(each): each for each in listed}, view.derive(fleet))


class Classes:
    """DeviceClasses, and the devices of each: found when they are first asked for, since most never are."""

    def __init__(self, by_name: Mapping[str, Object], known: Fleet | Unknown) -> None:
        """Args: the classes, and all devices."""
        self._by_name = by_name
        self._fleet = known
        self._of_class: dict[str, Sequence[Group]] = {}
        self._for_resource: dict[str, list[str]] = {}
        for name in sorted(by_name):
            resource = extended_resource_name(by_name[name])
            if resource is not None:
                self._for_resource.setdefault(resource, []).append(name)

    def __contains__(self, name: str) -> bool:
        """Whether there is a class of this name."""
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        """The names of all classes."""
        return iter(self._by_name)

    def standing_for(self, resource: str) -> tuple[str, ...]:
        """The names of the classes that an extended resource could stand for.

        Kubernetes takes the newest of several with one `extendedResourceName`. Which that is can change until a pod is
        scheduled, so all of them are named.
        """
        if resource.startswith(IMPLICIT_PREFIX):
            return (resource.removeprefix(IMPLICIT_PREFIX),)
        return tuple(self._for_resource.get(resource, ()))

    def necessary(self, name: str, texts: Sequence[str] = ()) -> Necessary:
        """What devices of a class that match other selectors too must be."""
        return necessary([*self._texts(name), *texts])

    def devices(self, name: str, texts: Sequence[str] = (), effort: Effort | None = None) -> Sequence[Group]:
        """The GPUs of a class that match other selectors too, those of one kind together; none while slices are unknown.

        Where selectors are too much work or do not compile, they are taken to match everything, and so is a class that
        does not exist.

        Args:
            name: of the class.
            texts: the other selectors.
            effort: what may be spent on them.
        """
        if self._fleet is UNKNOWN:
            return ()
        if name not in self._of_class:
            own = [group for group in self._fleet.groups if group.first.driver == DRIVER]
            self._of_class[name] = _parts(self._fleet, _chosen(self._fleet, own, self._texts(name), Effort()))
        found = self._of_class[name]
        return _parts(self._fleet, _chosen(self._fleet, found, texts, effort or Effort())) if texts else found

    def _texts(self, name: str) -> Sequence[str]:
        found = self._by_name.get(name)
        return () if found is None else selector_texts(found) or ()


def hosts(view: ClusterView) -> Hosts:
    """Which nodes devices are on. Use it by `view.derive(hosts)`."""
    view.derive(classes)  # so that it is made anew with the groups of devices that it remembers
    nodes = view.derive(node_kinds)
    return Hosts(NO_NODES if nodes is UNKNOWN else nodes)


class Hosts:
    """The kinds of nodes that devices are on, found once for each group of devices."""

    def __init__(self, nodes: NodeKinds) -> None:
        """Args: the nodes that show GPUs."""
        self.nodes = nodes
        self._of_group: dict[Group, frozenset[NodeKind] | None] = {}

    def of(self, group: Group) -> frozenset[NodeKind] | None:
        """The kinds of nodes that have some device of a group; None where one is tied to no node."""
        if group not in self._of_group:
            names = group.by_node
            found = frozenset(self.nodes.by_name.get(name, BARE) for name in names)
            self._of_group[group] = None if "" in names else found
        return self._of_group[group]


def _chosen(known: Fleet, groups: Sequence[Group], texts: Sequence[str], effort: Effort) -> Sequence[Group]:
    if size_of(texts) > MOST_TEXT:
        return groups
    compiled = [effort.compiled(text) for text in texts]
    selectors = [selector for selector in compiled if not isinstance(selector, CelCompileError)]
    choice = chosen(known, groups, selectors, effort)
    return choice.matched if choice.complete else groups


def _parts(known: Fleet, groups: Sequence[Group]) -> Sequence[Group]:
    """The groups, taken apart until each holds devices of one kind."""
    apart = known.apart(groups, _READS)
    return [Group([member]) for group in groups for member in group.members] if apart is None else apart


NO_CLASSES = Classes({}, UNKNOWN)
"""For where they cannot be seen."""
