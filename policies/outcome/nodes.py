"""Checks of nodes other than their devices, in the order of Kubernetes' scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.node_selectors import TargetNode
from policies.dra.allocation.slices import NodeSelection
from policies.kubernetes.amounts import ONE, billionths
from policies.kubernetes.nodes import NodeIndex, labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.kubernetes.taints import tolerates_taint
from policies.outcome.allocation import NO_RESOURCES
from policies.outcome.reasons import NodeMismatch, ReasonKind, ShareRequest, Shortage, Taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object
    from policies.outcome.allocation import AllocationProblem
    from policies.outcome.cluster import ResourceUsage
    from policies.outcome.question import Question

__all__ = ["NodeChecks", "is_cordoned", "preventing_taints"]

_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_PREVENTING = ("NoSchedule", "NoExecute")
_ALWAYS_OFFERED = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Resources that a node in a file may omit; a node that omits another resource has none of it."""


class NodeChecks:
    """The checks of one question; nodes are given by their position."""

    def __init__(self, problem: AllocationProblem, usage: ResourceUsage | None) -> None:
        """Prepare the checks; nodes are empty without `usage`."""
        question, nodes = problem.question, problem.nodes
        self._question = question
        self._nodes = nodes
        self._usage_of = usage.of if usage else _no_usage
        self._by_claims = problem.by_resource
        self._shares = problem.shares
        self._share_requests = _share_requests(question)
        self._spec = question.pod.spec if question.pod else {}
        index = NodeIndex(nodes)
        self._selected = index.select(self._spec) if question.pod else -1
        self._of_affinity = index.select({**self._spec, "nodeSelector": None}) if question.pod else -1
        self._tolerations = [each for each in self._spec.get("tolerations") or [] if isinstance(each, dict)]
        self._tolerated: dict[Taint, bool] = {}

    def mismatches(self, position: int) -> tuple[NodeMismatch, ...]:
        """All mismatches of a node in the order of the checks; empty if only its devices remain to be checked."""
        node = self._nodes[position]
        return (
            *self._cordon_mismatches(node),
            *self._taint_mismatches(node),
            *self._selector_mismatches(node, position),
            *self._shortages(node),
            *self._claim_mismatches(node),
            *self._share_mismatches(node),
        )

    def served_by_claims(self, position: int) -> frozenset[str]:
        """The pod's extended resources that a claim serves on a node, because its kubelet has none."""
        if not self._by_claims:
            return NO_RESOURCES
        node = self._nodes[position]
        return frozenset(name for name in self._by_claims if not self._allocatable(node, name))

    def room(self, position: int) -> int | None:
        """The number of such pods that the node has resources for and may run; None if unlimited."""
        node = self._nodes[position]
        rooms = [
            max(0, allocatable - self._used_amount(node, name)) // requested
            for name, requested in self._requested_amounts(node)
            if (allocatable := self._allocatable(node, name)) is not None
        ]
        return min((*rooms, 1) if self._question.is_one_per_node else rooms, default=None)

    def offers(self, position: int, resource: str) -> bool:
        """True if a node has some of a resource, in use or not."""
        return bool(self._allocatable(self._nodes[position], resource))

    def _cordon_mismatches(self, node: Object) -> Iterator[NodeMismatch]:
        if is_cordoned(node) and not tolerates_taint(self._tolerations, _UNSCHEDULABLE):
            yield NodeMismatch(ReasonKind.CORDONED)

    def _taint_mismatches(self, node: Object) -> Iterator[NodeMismatch]:
        if self._question.pod is not None:
            seen: set[str] = set()
            for taint in preventing_taints(node):
                # A state of the node has taints with both effects.
                if not self._tolerates(taint) and not (taint.condition and taint.key in seen):
                    seen.add(taint.key)
                    yield NodeMismatch(ReasonKind.TAINT, taint)

    def _tolerates(self, taint: Taint) -> bool:
        if taint not in self._tolerated:
            written = {"key": taint.key, "value": taint.value, "effect": taint.effect}
            self._tolerated[taint] = tolerates_taint(self._tolerations, written)
        return self._tolerated[taint]

    def _selector_mismatches(self, node: Object, position: int) -> Iterator[NodeMismatch]:
        if self._selected >> position & 1:
            return
        labels = labels_of(node)
        selector = self._spec.get("nodeSelector") or {}
        for key, value in selector.items():
            if labels.get(key) != value:
                yield NodeMismatch(ReasonKind.NODE_SELECTOR, key)
        if not self._of_affinity >> position & 1:
            yield NodeMismatch(ReasonKind.NODE_SELECTOR)

    def _shortages(self, node: Object) -> Iterator[NodeMismatch]:
        for name, requested in self._requested_amounts(node):
            allocatable = self._allocatable(node, name)
            if allocatable is None:
                continue
            left = allocatable - self._used_amount(node, name)
            if requested > left:
                shortage = Shortage(name, requested, max(0, left), allocatable)
                yield NodeMismatch(ReasonKind.RESOURCES, (name, shortage.is_permanent), shortage)

    def _requested_amounts(self, node: Object) -> Iterable[tuple[str, int]]:
        """The amounts that the node itself must provide; extended resources first, because they are scarce."""
        requested = sorted(self._question.resources.items(), key=_extended_first)
        return [
            (name, amount) for name, amount in requested if name not in self._by_claims or self._allocatable(node, name)
        ]

    @staticmethod
    def _allocatable(node: Object, resource: str) -> int | None:
        offered = lookup(node, ("status", "allocatable"))
        if resource in _ALWAYS_OFFERED and (not isinstance(offered, dict) or resource not in offered):
            return None
        return billionths(offered.get(resource)) if isinstance(offered, dict) else 0

    def _used_amount(self, node: Object, resource: str) -> int:
        return self._usage_of(name_of(node)).get(resource, 0)

    def _claim_mismatches(self, node: Object) -> Iterator[NodeMismatch]:
        for claim in self._question.allocated:
            selector = lookup(claim.claim.allocation, ("nodeSelector",))
            if isinstance(selector, dict) and not _matches(node, selector):
                yield NodeMismatch(ReasonKind.CLAIM_ELSEWHERE, claim.name)

    def _share_mismatches(self, node: Object) -> Iterator[NodeMismatch]:
        for request in self._share_requests:
            if self._shares.is_single(labels_of(node), request.resource) and self._allocatable(node, request.resource):
                yield NodeMismatch(ReasonKind.ONE_SHARE, request)


def _share_requests(question: Question) -> tuple[ShareRequest, ...]:
    """The most that one container requests of each device plugin's resource, if it is more than one."""
    most: dict[str, int] = {}
    spec = question.pod.spec if question.pod else {}
    for container in (*mappings_at(spec, ("initContainers",)), *mappings_at(spec, ("containers",))):
        limits = lookup(container, ("resources", "limits"))
        for name, amount in (limits if isinstance(limits, dict) else {}).items():
            if "/" in name:
                most[name] = max(most.get(name, 0), billionths(amount) // ONE)
    return tuple(ShareRequest(name, amount) for name, amount in most.items() if amount > 1)


def is_cordoned(node: Object) -> bool:
    """True if `kubectl cordon` keeps new pods off a node."""
    return lookup(node, ("spec", "unschedulable")) is True


def preventing_taints(node: Object) -> Iterator[Taint]:
    """The taints that repel pods, without the taint of a cordoned node."""
    for taint in mappings_at(node, ("spec", "taints")):
        if taint.get("effect") in _PREVENTING:
            if taint.get("key") == _UNSCHEDULABLE["key"] and is_cordoned(node):
                continue
            yield Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint["effect"]))


def _no_usage(node: str) -> Mapping[str, int]:
    """The usage of a node in an empty cluster."""
    return {}


def _matches(node: Object, selector: Mapping[str, Any]) -> bool:
    """True if a node matches an allocation's selector; an invalid selector matches nothing."""
    try:
        return TargetNode(node).matches(NodeSelection(selector=selector))
    except AllocationError:
        return False


def _extended_first(item: tuple[str, int]) -> tuple[bool, str]:
    return "/" not in item[0], item[0]
