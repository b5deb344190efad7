"""The cluster for explanations: nodes, slices, allocated devices and resources in use, digested once for many questions."""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.index import SliceIndex
from policies.dra.allocation.slices import Slice
from policies.dra.allocation.usage import NONE, Held, Usage
from policies.dra.resource_claims import Claim
from policies.explanation.versions import slice_as_v1
from policies.kubernetes.amounts import taken_by
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.kubernetes.amounts import Amounts
    from policies.kubernetes.objects import Object

__all__ = ["BRING", "Cluster", "Holding", "ResourceUsage", "read_cluster", "used_amounts"]

BRING = (
    "bring what the cluster holds: "
    "kubectl get resourceslices,deviceclasses,resourceclaims,nodes,pods -A -o yaml > cluster.yaml"
)
"""The remedy where facts are missing."""

_ANYWHERE = "any node"


class Holding(NamedTuple):
    """A claim that holds devices."""

    held: Held
    words: str
    """Who holds them."""
    pods: tuple[str, ...]
    """The pods that it is reserved for, `team-b/train-0`; none if anything else uses it, such as a PodGroup."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts about devices and nodes."""

    nodes: Sequence[Object]
    nodes_known: bool
    """Whether these are the cluster's nodes; otherwise they are made up, one for each that a slice names."""
    index: SliceIndex | None
    """None where no slices are known."""
    usage: Usage
    """What allocated claims hold."""
    claims_known: bool
    holders: Mapping[str, tuple[str, ...]]
    """Who holds a device, by `driver/pool/device`, in words: `team-b/train-0`."""
    holding: Sequence[Holding] = ()
    """The claims that hold devices."""
    problem: str = ""
    """Why the slices or the allocations cannot be read."""


def read_cluster(view: ClusterView) -> Cluster:
    """Digest the view. Use it by `view.derive(read_cluster)`."""
    nodes, claims = view.list("Node"), view.derive_each("ResourceClaim", _holding_of)
    holding = [] if claims is UNKNOWN else [each for each in claims if each is not None]
    index, usage, problem = None, NONE, ""
    try:
        index = _index(view)
        usage = Usage.together(each.held for each in holding)
    except AllocationError as error:
        problem = str(error)
    slices = view.list("ResourceSlice") if nodes is UNKNOWN else ()
    return Cluster(
        nodes=_guess_nodes(() if slices is UNKNOWN else slices) if nodes is UNKNOWN else nodes,
        nodes_known=nodes is not UNKNOWN,
        index=index,
        usage=usage,
        claims_known=claims is not UNKNOWN,
        holders=_holders(holding),
        holding=holding,
        problem=problem,
    )


def used_amounts(view: ClusterView) -> Mapping[str, Mapping[str, int]] | None:
    """What pods that the view lists take of each node, in billionths; None where pods are unknown.

    Use it by `view.derive`. What other pods take is to be asked for besides: see `Taken`.
    """
    pods = view.derive_each("Pod", taken_by)
    if pods is UNKNOWN:
        return None
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for taken in pods:
        if taken is None:
            continue
        node, amounts = taken
        of_node = used[node]
        for name, amount in amounts:
            of_node[name] = of_node.get(name, 0) + amount
    return used


def _index(view: ClusterView) -> SliceIndex | None:
    """The slices; None where they are unknown. Raises AllocationError as `SliceIndex` does."""
    slices = view.derive_each("ResourceSlice", _slice)
    if slices is UNKNOWN:
        return None
    problem = next((each for each in slices if isinstance(each, str)), None)
    if problem is not None:
        raise AllocationError(problem)
    return SliceIndex(each for each in slices if not isinstance(each, str))


def _slice(document: Object) -> Slice | str:
    """A slice, or why it cannot be read."""
    try:
        return Slice(slice_as_v1(document))
    except AllocationError as error:
        return str(error)


def _holding_of(claim: Object) -> Holding | None:
    """What a claim holds, by those results of its allocation that have the shape of one; None for nothing."""
    held = Held.by(Claim(claim).allocated_devices)
    return Holding(held, _holder(claim), _pods(claim)) if any(held) else None


def _pods(claim: Object) -> tuple[str, ...]:
    pods = _consumers(claim, "pods")
    return tuple(f"{namespace_of(claim)}/{name}" for name in pods) if len(pods) == len(Claim(claim).consumers) else ()


def _holders(claims: Iterable[Holding]) -> dict[str, tuple[str, ...]]:
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for claim in claims:
        for device in (*claim.held.devices, *(shared for shared, _ in claim.held.shares)):
            holders[device].append(claim.words)
    return {device: (*dict.fromkeys(words),) for device, words in holders.items()}


def _holder(claim: Object) -> str:
    """Who holds a claim's devices: the pods or the PodGroups that it is reserved for, or the claim itself."""
    namespace = namespace_of(claim)
    if pods := _consumers(claim, "pods"):
        return f"{namespace}/{_first(pods, 'pod')}"
    if groups := _consumers(claim, "podgroups"):
        return f"the pods of PodGroup {namespace}/{_first(groups, 'group')}"
    return f"claim {namespace}/{name_of(claim)}, which no pod uses now"


def _consumers(claim: Object, resource: str) -> list[str]:
    return [str(consumer.get("name")) for consumer in Claim(claim).consumers if consumer.get("resource") == resource]


def _first(names: list[str], noun: str) -> str:
    more = f" and {len(names) - 1} more {noun}{'s' if len(names) > 2 else ''}" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _guess_nodes(slices: Iterable[Object]) -> list[Object]:
    """Nodes made up from the names in slices; one of no name where devices can be reached over the network only."""
    names: dict[str, None] = {}
    reachable = False
    for document in slices:
        spec = document.get("spec")
        found = [lookup(spec, ("nodeName",)), *_device_nodes(slice_as_v1(document))]
        named = [name for name in found if isinstance(name, str) and name]
        names.update(dict.fromkeys(named))
        reachable = reachable or not named
    everyone = sorted(names) or ([_ANYWHERE] if reachable else [])
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in everyone]


def _device_nodes(document: Object) -> list[Any]:
    devices = lookup(document, ("spec", "devices"))
    return [lookup(device, ("nodeName",)) for device in devices] if isinstance(devices, list) else []


class ResourceUsage:
    """What all pods take of each node: those that the view lists, and those that it does not show.

    What the others take is asked for node by node, when a node is first looked at, and stays so for this explanation.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._listed = view.derive(used_amounts)
        self._of: dict[str, Mapping[str, int]] = {}
        self.others_known = True
        """Whether the pods that the view does not list were counted on all nodes that were asked about."""

    @property
    def pods_known(self) -> bool:
        """Whether anything is known of pods; otherwise nodes count as empty."""
        return self._listed is not None

    def of(self, node: str) -> Mapping[str, int]:
        """What is taken of a node, in billionths by resource."""
        taken = self._of.get(node)
        if taken is None:
            taken = self._of[node] = self._sum_on(node)
        return taken

    def without(self, node: str, ended: Iterable[Amounts]) -> ResourceUsage:
        """The same as if pods with these amounts had left a node."""
        left = dict(self.of(node))
        for amounts in ended:
            for name, amount in amounts:
                left[name] = left.get(name, 0) - amount
        others = copy(self)
        others._of = {**self._of, node: left}  # noqa: SLF001 - of the same class
        return others

    def _sum_on(self, node: str) -> Mapping[str, int]:
        if self._listed is None:
            return {}
        listed, others = self._listed.get(node, {}), self._view.others_on(node)
        if others is UNKNOWN:
            self.others_known = False
            return listed
        if not others:
            return listed
        return {name: listed.get(name, 0) + others.get(name, 0) for name in {**listed, **others}}
