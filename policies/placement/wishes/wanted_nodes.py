"""The nodes on which a pod may run by its wish: conditions on labels of nodes, or names of nodes.

A GPUCluster runs no GPU Feature Discovery, so some or all nodes have no labels for wishes. MIG devices of any profile,
as `deviceclass.resource.kubernetes.io/mig.nvidia.com` hands them out, have no labels on any node. In these cases, nodes
are named whose devices, by their ResourceSlices, meet the wish.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.node_requirements import ALWAYS, Alternatives, NodeRequirement, both
from policies.kubernetes.nodes import required_terms
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.predicates import TRUE
from policies.nvidia.wishes import Wish
from policies.nvidia.wishes.device_predicate import device_predicate
from policies.placement.wishes.node_labels import alternatives
from policies.placement.wishes.product_labels import PRODUCT_SUFFIX, seen_products
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from policies.dra.device_groups import DeviceGroup
    from policies.kubernetes.pods import Pod
    from policies.placement.wishes.product_labels import SeenProducts
    from policies.placement.wishes.requested_gpus import RequestedGPU
    from policies.view import ClusterView

__all__ = [
    "MOST_NAMES",
    "UnlabelledGPUs",
    "WantedNodes",
    "is_as_wished",
    "named_nodes",
    "unlabelled_gpus",
    "wanted_nodes",
]

_NOTHING = (Wish(), Wish(sharing="any"))
"""Wishes that every GPU meets."""


@dataclass(frozen=True, slots=True)
class WantedNodes:
    """The requirements of a wish on a pod's node."""

    alternatives: Alternatives = ALWAYS
    untold: tuple[RequestedGPU, ...] = ()
    """Requested resources that neither labels nor ResourceSlices describe; the wish is not applied to them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that are named, if an alternative names nodes."""
        named = (item for branch in self.alternatives for item in branch if item.key == HOSTNAME)
        return tuple(sorted({name for item in named for name in item.values}))


def wanted_nodes(pod: Pod, requested: tuple[RequestedGPU, ...], view: ClusterView, wish: Wish) -> WantedNodes:
    """The nodes that have what a pod wishes, for every resource that it requests."""
    if wish in _NOTHING:
        return WantedNodes()
    seen = _with_selected(seen_products(view), pod.spec)
    wanted, untold = ALWAYS, []
    for gpu in requested:
        by_label = alternatives(wish, gpu.labels, seen) if gpu.labels else ()
        by_name = named_nodes(wish, gpu, view)
        if gpu.labels or unlabelled_gpus(gpu, view):
            wanted = both(wanted, (*by_label, *by_name))
        else:
            untold.append(gpu)
    return WantedNodes(wanted, tuple(untold))


def _with_selected(seen: SeenProducts, spec: Mapping[str, Any]) -> SeenProducts:
    """The products seen, and those that the pod selects itself: it may know what comes."""
    selected: defaultdict[str, set[str]] = defaultdict(set)
    for key, values in _selected_labels(spec):
        if key.endswith(PRODUCT_SUFFIX):
            selected[key].update(values)
    return {**seen, **{key: seen.get(key, frozenset()).union(values) for key, values in selected.items()}}


def _selected_labels(spec: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield key, [value]
    for term in required_terms(spec):
        for expression in term.get("matchExpressions") or []:
            if expression.get("operator") == "In":
                yield expression.get("key") or "", expression.get("values") or []


HOSTNAME = "kubernetes.io/hostname"
MOST_NAMES = 500
"""Maximum nodes that a pod is tied to; each is stored with every pod."""


@dataclass(frozen=True, slots=True)
class UnlabelledGPUs:
    """Equal devices on nodes without labels for them."""

    group: DeviceGroup
    hostnames: frozenset[str]
    """The label `kubernetes.io/hostname` of these nodes; those without it are left out."""


def named_nodes(wish: Wish, requested: RequestedGPU, view: ClusterView) -> Alternatives:
    """The nodes without labels whose devices all meet the wish; `()`, which no node meets, if none do.

    A resource gets any device that its DeviceClass selects, so one other device excludes its node. If all existing devices
    meet a wish about sharing, later nodes are expected to meet it too.
    """
    gpus = unlabelled_gpus(requested, view)
    right = frozenset().union(*(each.hostnames for each in gpus if is_as_wished(each.group, wish, requested)))
    wrong = frozenset().union(*(each.hostnames for each in gpus if not is_as_wished(each.group, wish, requested)))
    names = sorted(right - wrong)
    if not names:
        return ()
    if not wrong and _is_about_sharing(wish, requested):
        return ((NodeRequirement(PRODUCT_LABEL, "DoesNotExist"),),) if requested.labels else ALWAYS
    return ((NodeRequirement(HOSTNAME, "In", tuple(names[:MOST_NAMES])),),)


def unlabelled_gpus(requested: RequestedGPU, view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    """Devices without labels that a resource can stand for; empty while nodes or slices are unknown.

    Those of a resource that has labels are on nodes that GFD does not label, those of any other on every node.
    """
    gpus = view.derive(_gpus_without_gfd if requested.labels else _gpus)
    return tuple(each for each in gpus if requested.can_get(each.group))


def is_as_wished(group: DeviceGroup, wish: Wish, requested: RequestedGPU) -> bool:
    """True if devices meet a wish; devices that several claims can hold are shared."""
    if wish.sharing in ("exclusive", "shared") and group.is_shareable != (wish.sharing == "shared"):
        return False
    return requested.devices is not None and device_predicate(wish, requested.devices).matches(group.first)


def _gpus(view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    return _published_gpus(view, only_without_gfd=False)


def _gpus_without_gfd(view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    return _published_gpus(view, only_without_gfd=True)


def _published_gpus(view: ClusterView, *, only_without_gfd: bool) -> tuple[UnlabelledGPUs, ...]:
    nodes, groups = gpu_nodes(view), gpu_groups(view)
    if nodes is UNKNOWN or groups is UNKNOWN:
        return ()
    hostnames = {
        node.name: node.labels[HOSTNAME]
        for node in nodes.all
        if HOSTNAME in node.labels and not (only_without_gfd and PRODUCT_LABEL in node.labels)
    }
    gpus = (
        UnlabelledGPUs(group, frozenset(hostnames[node] for node in group.by_node if node in hostnames))
        for group in groups
    )
    return tuple(each for each in gpus if each.hostnames)


def _is_about_sharing(wish: Wish, requested: RequestedGPU) -> bool:
    return requested.devices is not None and device_predicate(wish, requested.devices) == TRUE
