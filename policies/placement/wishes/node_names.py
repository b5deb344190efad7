"""Wishes where no label tells of GPUs: the nodes are named whose devices, by their ResourceSlices, are as wished.

On a GPUCluster no GPU Feature Discovery runs, so a wish can be rendered to labels on some nodes or on none. And MIG
devices of any profile, as `deviceclass.resource.kubernetes.io/mig.nvidia.com` hands them out, have labels nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import gpu_groups
from policies.kubernetes.node_requirements import ALWAYS, Alternatives, NodeRequirement
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.predicates import TRUE
from policies.nvidia.wishes.device_predicate import device_predicate
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.dra.device_groups import DeviceGroup
    from policies.kubernetes.objects import Object
    from policies.nvidia.wishes import Wish
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.view import ClusterView, Unknown

__all__ = ["HOSTNAME", "MOST_NAMES", "UnlabelledGPUs", "is_as_wished", "named_nodes", "unlabelled_gpus"]

HOSTNAME = "kubernetes.io/hostname"
MOST_NAMES = 500
"""How many nodes a pod is tied to at most; each is stored with every pod."""


@dataclass(frozen=True, slots=True)
class UnlabelledGPUs:
    """Devices that are alike, on nodes whose labels do not tell of them."""

    group: DeviceGroup
    hostnames: frozenset[str]
    """The label `kubernetes.io/hostname` of these nodes; those without it are left out."""


def named_nodes(wish: Wish, asked: AskedGPU, view: ClusterView) -> Alternatives:
    """The nodes without labels of such GPUs whose devices are all as wished; never, where there are none.

    A resource gets any device that its DeviceClass selects, so one that is not as wished rules its node out. How devices
    are shared is as wished on later nodes too, where it is on all that there are.
    """
    gpus = unlabelled_gpus(asked, view)
    right = frozenset().union(*(each.hostnames for each in gpus if is_as_wished(each.group, wish, asked)))
    wrong = frozenset().union(*(each.hostnames for each in gpus if not is_as_wished(each.group, wish, asked)))
    names = sorted(right - wrong)
    if not names:
        return ()
    if not wrong and _is_about_sharing(wish, asked):
        return ((NodeRequirement(PRODUCT_LABEL, "DoesNotExist"),),) if asked.labels else ALWAYS
    return ((NodeRequirement(HOSTNAME, "In", tuple(names[:MOST_NAMES])),),)


def unlabelled_gpus(asked: AskedGPU, view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    """The devices that a resource can stand for and no label tells of; none while nodes or slices are unknown.

    Those of a resource that has labels are on nodes that GFD does not label, those of any other on every node.
    """
    gpus = view.derive(_gpus_without_gfd if asked.labels else _gpus)
    return tuple(each for each in gpus if asked.can_get(each.group))


def is_as_wished(group: DeviceGroup, wish: Wish, asked: AskedGPU) -> bool:
    """Whether devices are as wished; those that several claims can hold are shared."""
    if wish.sharing in ("exclusive", "shared") and group.is_shareable != (wish.sharing == "shared"):
        return False
    return asked.devices is not None and device_predicate(wish, asked.devices).matches(group.first)


def _gpus(view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    return _on(view.derive_each("Node", _host), view)


def _gpus_without_gfd(view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    hosts = view.derive_each("Node", _host)
    return _on(hosts if hosts is UNKNOWN else [host for host in hosts if not host.has_product], view)


class _Host(NamedTuple):
    name: str
    hostname: str | None
    has_product: bool


def _host(node: Object) -> _Host:
    labels = labels_of(node)
    return _Host(name_of(node), labels.get(HOSTNAME), PRODUCT_LABEL in labels)


def _on(hosts: Sequence[_Host] | Unknown, view: ClusterView) -> tuple[UnlabelledGPUs, ...]:
    if hosts is UNKNOWN:
        return ()
    groups = gpu_groups(view)
    hostnames = {host.name: host.hostname for host in hosts if host.hostname is not None}
    gpus = [
        UnlabelledGPUs(group, frozenset(hostnames[node] for node in group.by_node if node in hostnames))
        for group in (() if groups is UNKNOWN else groups)
    ]
    return tuple(each for each in gpus if each.hostnames)


def _is_about_sharing(wish: Wish, asked: AskedGPU) -> bool:
    return asked.devices is not None and device_predicate(wish, asked.devices) == TRUE
